"""Images made elsewhere, read and scored: do they show what was requested?

labels    what each image should show: tables, prompts, words      reading   which reader, and what
matching  which requests an image fulfils                            it knows
accuracy  the numbers, for a whole set or batch by batch
"""

from recombine.scoring.accuracy import CompositionAccuracy, score

__all__ = ["CompositionAccuracy", "score"]
