"""Times Blender on CLEVR scenes built of its own primitives: run by a Python that has `bpy`.

    PYTHON blender_peer.py SCENES.json COUNT

Prints one JSON object with the seconds of each image. Settings as in the reference renders: Cycles
on the CPU, 64 samples, denoised, 128 pixels, a diffuse and a glossy material. `recombine bench
render --with-blender PYTHON` calls it; it needs nothing of recombine.
"""

import json
import math
import sys
import tempfile
import time
from pathlib import Path

SIZE, SAMPLES = 128, 64
EYE = (7.4811, -6.5076, 5.3437)
LAMPS = (
    ((6.447, -2.905, 4.258), 0.5, 78.5, (1, 0.932, 0.817)),
    ((-4.671, -4.014, 3.011), 0.5, 23.6, (0.762, 0.818, 1)),
    ((-1.169, 2.646, 5.816), 1.0, 39.3, (1, 1, 1)),
)


def main(path: str, count: int) -> None:
    """Render some scenes spread over the file and print their times."""
    scenes = json.loads(Path(path).read_text())["scenes"]
    chosen = [scenes[len(scenes) * k // count] for k in range(count)]
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for number, scene in enumerate(chosen):
            built(scene)
            bpy.context.scene.render.filepath = str(Path(folder) / f"{number}.png")
            started = time.perf_counter()
            bpy.ops.render.render(write_still=True)
            seconds.append(time.perf_counter() - started)
    print("BLENDER " + json.dumps({"seconds": seconds, "version": bpy.app.version_string}))


def built(scene: dict) -> None:
    """Set the stage anew: floor, lamps, camera and the scene's objects."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    settings = bpy.context.scene
    settings.render.engine, settings.cycles.device = "CYCLES", "CPU"
    settings.cycles.samples, settings.cycles.use_denoising = SAMPLES, True
    settings.render.resolution_x = settings.render.resolution_y = SIZE
    settings.view_settings.view_transform = "Standard"
    bpy.ops.mesh.primitive_plane_add(size=200)
    bpy.context.object.data.materials.append(material((0.79, 0.79, 0.79), metal=False))
    for place, side, watts, colour in LAMPS:
        bpy.ops.object.light_add(type="AREA", location=place)
        lamp = bpy.context.object
        lamp.data.size, lamp.data.energy, lamp.data.color = side, watts, colour
        faced(lamp)
    bpy.ops.object.light_add(type="SUN")
    bpy.context.object.data.energy = 0.45
    bpy.ops.object.camera_add(location=EYE)
    settings.camera = bpy.context.object
    settings.camera.data.lens, settings.camera.data.sensor_width = 35, 32
    faced(settings.camera)
    for each in scene["objects"]:
        placed(each)


def placed(entry: dict) -> None:
    """Add one object."""
    size = 0.7 if entry["size"] == "large" else 0.35
    where = {"location": entry["3d_coords"], "rotation": (0, 0, math.radians(entry["rotation"]))}
    if entry["shape"] == "cube":
        bpy.ops.mesh.primitive_cube_add(size=2 * size, **where)
    elif entry["shape"] == "sphere":
        bpy.ops.mesh.primitive_uv_sphere_add(radius=size, segments=64, ring_count=32, **where)
    else:
        bpy.ops.mesh.primitive_cylinder_add(radius=size, depth=2 * size, vertices=64, **where)
    colour = entry.get("rgb", (0.5, 0.2, 0.2))
    bpy.context.object.data.materials.append(material(colour, metal=entry["material"] == "metal"))


def material(colour: tuple, *, metal: bool) -> "bpy.types.Material":
    """Return a tinted mirror or a matt surface."""
    made = bpy.data.materials.new("surface")
    made.use_nodes = True
    surface = made.node_tree.nodes["Principled BSDF"]
    surface.inputs["Base Color"].default_value = (*colour, 1)
    surface.inputs["Metallic"].default_value = float(metal)
    surface.inputs["Roughness"].default_value = 0.2 if metal else 0.8
    return made


def faced(thing: "bpy.types.Object") -> None:
    """Turn a lamp or the camera to the origin."""
    thing.rotation_euler = (-Vector(thing.location)).to_track_quat("-Z", "Y").to_euler()


if __name__ == "__main__":
    import bpy
    from mathutils import Vector

    main(sys.argv[1], int(sys.argv[2]))
