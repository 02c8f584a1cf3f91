from recombine.data import Stream as Stream
from recombine.measure.locality import locality as locality
from recombine.measurement import Measurement as Measurement
from recombine.pipelines.wrap import wrap as wrap
from recombine.results.query import records as records
from recombine.run.model import Model as Model
from recombine.run.model import load as load
from recombine.scene import Concepts as Concepts
from recombine.scene import Factor as Factor
from recombine.scene import Scenes as Scenes
from recombine.scene import World as World
from recombine.scene import compositions as compositions
from recombine.scoring.accuracy import CompositionAccuracy as CompositionAccuracy
from recombine.scoring.accuracy import score as score
from recombine.split import CountSplit as CountSplit
from recombine.split import Coverage as Coverage
from recombine.split import Split as Split
from recombine.split import leaks as leaks
from recombine.split import level as level
from recombine.worlds import WORLDS as WORLDS
from recombine.worlds import Circles as Circles
from recombine.worlds import Clevr as Clevr
from recombine.worlds import Shapes2D as Shapes2D
from recombine.worlds import Shapes3D as Shapes3D

__version__: str
