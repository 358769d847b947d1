"""Compiles the programs of a study for TPUs, without one, and estimates their time by roofline.

    python -m benchmarks.tpu                             # two layers of each network
    python -m benchmarks.tpu --networks=Qwen3-0.6B --layers=28 --scan      # compile time, memory
    python -m benchmarks.tpu --chips=v6e --mesh=data:2,model:2 --prefix=8192

Nothing runs, and nothing is timed but the compiler. "Counted" is XLA's number of floating point
operations, with an estimate by our kernel; "useful" are those of the unique tokens, as in
`benchmarks.accelerator`. "Traffic" are the bytes of all operands and results in the device's main
memory; what lies in the chip's own memory is left out. The time by roofline is the larger one of
operations / peak and traffic / bandwidth, without transfers between chips. A program fails if it
does not compile or needs more memory than the chip has.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
from flax import nnx
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.methods.fitting import compare
from batch_calibration.scoring import dual_encoder
from batch_calibration.scoring.engine import forward, programs, sharding
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.family import Decoder, Family
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.config import read_config
from batch_calibration.scoring.models.layers import product
from benchmarks.shapes import SHAPES


class Chip(NamedTuple):
    """A kind of TPU (cloud.google.com/tpu/docs): FLOP/s in bfloat16, bytes/s, bytes of memory."""

    topology: str
    peak: float
    bandwidth: float
    memory: float


ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
}  # fmt: skip
"""Names that the compiler asks for, and that matter on a TPU's own machine alone."""
CHIPS = {
    "v5e": Chip("v5e:2x2", 197e12, 819e9, 16e9),
    "v5p": Chip("v5p:2x2x1", 459e12, 2765e9, 95e9),
    "v6e": Chip("v6e:2x2", 918e12, 1640e9, 32e9),
}
MESHES = {"v5e": "", "v5p": "data:4", "v6e": "data:2,model:2"}
"""The mesh of each chip's run; "" is one chip, the others have four."""
GPT_OSS = {
    "model_type": "gpt_oss", "vocab_size": 201_088, "hidden_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
    "num_local_experts": 32, "num_experts_per_tok": 4, "max_position_embeddings": 131_072,
}  # fmt: skip
CLIP = {"model_type": "clip", "text_config": {}, "vision_config": {"patch_size": 16}}
NAMES = ("GPT-2", "Llama-3.2-1B", "Qwen3-0.6B", "Gemma3-270M")
NETWORKS = {name: SHAPES[name].config for name in NAMES} | {"gpt-oss-20b": GPT_OSS}
SHARED = 240
"""Tokens of the shared prefix, as in `benchmarks.accelerator`."""
READS = 512
LOOSE = 1.1
"""A batch is planned for the chip's memory divided by it."""


class Rows(NamedTuple):
    """Rows that fill packed sequences: slots of a sequence, tokens of a row and rows in it."""

    slots: int
    tokens: int
    count: int


PROMPTS = {"300 tokens": Rows(640, 300, 2), "1,024 tokens": Rows(1024, 1024, 1)}
OWN = Rows(128, 60, 2)
"""Rows of 300 tokens without the 240 that they share."""


class Program(NamedTuple):
    """A compiled program with a function of useful operations of one device."""

    name: str
    lower: Callable[[], Any]
    useful: float = 0.0


class Network(NamedTuple):
    """A network of shapes without weights, placed on a chip or on a mesh."""

    graph: Any
    state: Any
    config: Any
    family: Family
    mesh: Mesh | None

    def array(self, shape: tuple[int, ...], dtype: Any = jnp.int32, *axes: str | None) -> Any:
        """Returns an array's shape; `axes` are the axes of the mesh that split it."""
        home = self.home if self.mesh is None else NamedSharding(self.mesh, PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=home)

    @property
    def home(self) -> Any:
        """Where the weights lie."""
        return jax.tree.leaves(self.state)[0].sharding

    @property
    def kernels(self) -> list[Any]:
        """The matrices that each token is multiplied with; of experts, those that it chooses."""
        leaves = jax.tree_util.tree_leaves_with_path(self.state)
        return [leaf for path, leaf in leaves if "kernel" in jax.tree_util.keystr(path)]


def network(raw: dict[str, Any], mesh: Mesh | None, device: Any, scans: bool) -> Network:
    """Makes a network of shapes in bfloat16."""
    family = FAMILIES[raw["model_type"]]
    config = read_config(family, raw, Path("shapes"))

    def make() -> nnx.Module:
        model = family.model(config, rngs=nnx.Rngs(0))
        if scans and isinstance(model, Decoder):
            model.scan_layers()
        return model

    model = nnx.eval_shape(make)
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Embed):
            module.dtype = jnp.bfloat16
        if isinstance(module, nnx.Linear):
            module.dtype, module.dot_general = jnp.bfloat16, product
    graph, state = nnx.split(model)
    flat = nnx.to_flat_state(state)
    table = {weight.path: weight for weight in family.weights.values()}
    placed = []
    for path, leaf in flat:
        home: Any = SingleDeviceSharding(device)
        if mesh is not None:
            pattern = re.sub(r"\.\d+\.", ".{i}.", ".".join(map(str, path)), count=1)
            stacked = ".bodies." in pattern
            weight = table[pattern.replace(".bodies", "")]
            home = weights.shard_weight(weight, leaf.shape[stacked:], mesh)
            home = NamedSharding(mesh, PartitionSpec(*[None] * stacked, *home.spec))
        placed.append(
            (path, leaf.replace(jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16, sharding=home)))
        )
    return Network(graph, nnx.from_flat_state(placed), config, family, mesh)


def batch_positions(net: Network, chip: Chip) -> int:
    """Returns the positions of a batch, as `forward.budget` would on this chip."""
    config, split = net.config, 1 if net.mesh is None else net.mesh.shape["model"]
    written = sum(leaf.size // leaf.shape[-2] for leaf in net.kernels) // config.layers
    held = 2 * sum(leaf.size for leaf in jax.tree.leaves(net.state)) / split
    a_position = forward.position_bytes(config.width, written, 0, 2)
    return forward.positions(chip.memory / LOOSE - held, a_position, forward.max_positions())


def causal_programs(net: Network, chip: Chip, prefix: int) -> Iterator[Program]:
    """Yields the programs that score labels after texts with a causal language model."""
    config, devices = net.config, 1 if net.mesh is None else net.mesh.size
    heads = config.heads
    size = getattr(config, "head_dim", None) or config.width // heads
    groups = getattr(config, "num_key_value_heads", None) or heads
    how = programs.Attention(programs.attention_kind("tpu", "bfloat16", bool(net.mesh)), net.mesh)
    splits = net.mesh is not None and groups % net.mesh.shape["model"] == 0
    place = (None, None, "model") if splits else ()
    padded = -(-prefix // forward.STEP) * forward.STEP
    old = net.array((config.layers, padded, groups, size), jnp.bfloat16, *place)
    old_values = net.array((config.layers, padded, groups, size + 1), jnp.bfloat16, *place)
    # Experts share one array, of which a token multiplies the chosen ones.
    products = sum(leaf.size for leaf in net.kernels)
    if chosen := getattr(config, "num_experts_per_tok", 0):
        products += 3 * chosen * config.width * config.intermediate_size * config.layers

    def useful(tokens: int, pairs: int) -> float:
        attention = 4 * config.layers * heads * size * pairs
        return (2.0 * products * tokens + attention) / devices

    chunk = net.array((1, min(padded, forward.PREFIX_CHUNK)))
    number = net.array(())
    shared = 1 if net.mesh is None else net.mesh.shape["model"]
    yield Program(
        "prefill",
        lambda: programs.prefill.lower(
            net.graph, padded, how, net.state, (), number, chunk, number
        ),
    )
    budget = batch_positions(net, chip) * (1 if net.mesh is None else net.mesh.shape["data"])
    for name, rows, cached in (
        *((name, rows, 0) for name, rows in PROMPTS.items() if rows.tokens <= config.positions),
        (f"60 after {prefix}", OWN, prefix),
    ):
        count = max(1, budget // rows.slots)
        count = -(-count // sharding.row_multiple(net.mesh)) * sharding.row_multiple(net.mesh)
        slots = net.array((count, rows.slots), jnp.int32, "data")
        pairs = sum(range(cached + 1, cached + rows.tokens + 1)) * rows.count * count
        cache = (old, old_values) if cached else ()
        yield Program(
            f"{count} x {rows.slots}: {name}",
            lambda cache=cache, slots=slots: programs.forward_packed.lower(
                net.graph, how, net.state, cache, slots, slots, slots
            ),
            useful(rows.tokens * rows.count * count, pairs),
        )
    states = net.array((READS, config.width), jnp.bfloat16)
    few, reads = net.array((8,)), net.array((READS,))
    home = sharding.replicated(net.mesh)
    yield Program(
        f"read {READS}",
        lambda: programs.read.lower(
            net.graph, home, config.vocab_size, config.vocab_size, net.state, states, few, reads,
            reads,
        ),
        2.0 * config.width * config.vocab_size * READS / shared,
    )  # fmt: skip


def image_programs(net: Network, chip: Chip) -> Iterator[Program]:
    """Yields the programs of CLIP: images and captions."""
    home, data = sharding.replicated(net.mesh), sharding.row_multiple(net.mesh)
    edge, rows = net.config.vision_image_size, 256 * data
    pixels = net.array((rows, edge, edge, 3), jnp.bfloat16, "data")
    tokens, lengths = (
        net.array((rows, 77), jnp.int32, "data"),
        net.array((rows,), jnp.int32, "data"),
    )
    for name, embed, arrays in (
        (f"{rows} images", embed_images, (pixels,)),
        (f"{rows} captions", embed_captions, (tokens, lengths)),
    ):
        yield Program(
            name,
            lambda embed=embed, arrays=arrays: dual_encoder._run.lower(
                net.graph, home, embed, (), net.state, *arrays
            ),
        )


def embed_images(model: Any, pixels: jax.Array) -> jax.Array:
    """Computes the embeddings of normalized pixels."""
    return model.embed_image(pixels)


def embed_captions(model: Any, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """Computes the embeddings of captions."""
    return model.embed_text(tokens, lengths)


def core_programs(device: Any) -> Iterator[Program]:
    """Yields the calibration core, vmapped over contexts."""
    home = SingleDeviceSharding(device)
    rows = jax.ShapeDtypeStruct((64, 512, 4), jnp.float32, sharding=home)
    names = ("icl", "cc", "bc", "bc_running")
    core = jax.jit(compare, static_argnames="methods")
    blocks = {
        "test": (rows,),
        "cc": (jax.ShapeDtypeStruct((64, 1, 4), jnp.float32, sharding=home),),
    }
    yield Program("64 contexts of 512 x 4", lambda: core.lower(blocks, methods=names))


class Figures(NamedTuple):
    """The figures of a compiled program, of one device."""

    seconds: float
    memory: float
    operations: float
    traffic: float
    collectives: dict[str, tuple[int, int]]
    loops: bool


def figures(program: Program) -> Figures:
    """Compiles a program."""
    start = time.perf_counter()
    compiled = program.lower().compile()
    seconds = time.perf_counter() - start
    stats, text = compiled.memory_analysis(), compiled.as_text()
    memory = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    operations = float(compiled.cost_analysis()["flops"])
    return Figures(seconds, memory, operations, traffic(text), collectives(text), " while(" in text)


BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "f32": 4, "s32": 4, "u32": 4}
ARRAY = re.compile(r"(\w+)\[([\d,]*)\](\{[^}]*\})?")
INSTRUCTION = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*?)\)")
NO_TRAFFIC = ("parameter", "bitcast", "tuple", "get-tuple-element", "constant", "while")


def size_of(shape: str, *, everywhere: bool = False) -> int:
    """Returns the bytes of HLO arrays in main memory; those in the chip's own are marked `S(1)`.

    >>> size_of("(bf16[4,2]{1,0:T(8,128)}, f32[8]{0:T(1024)S(1)})")
    16
    """
    total = 0
    for kind, sizes, layout in ARRAY.findall(shape):
        if everywhere or "S(1)" not in layout:
            total += BYTES.get(kind, 0) * prod(int(n) for n in sizes.split(",") if n)
    return total


def traffic(text: str) -> int:
    """Sums the bytes in main memory that the instructions of an HLO module read and write.

    Loops count once. A gather reads about as much as it writes, not its whole table.
    """
    shapes, total = dict[str, str](), 0
    for name, shape, kind, operands in INSTRUCTION.findall(text[text.index("ENTRY") :]):
        shapes[name] = shape
        if kind in NO_TRAFFIC or kind.endswith("-done"):
            continue
        if kind.endswith("-start"):  # Its result names the operand, too.
            total += size_of(shape)
            continue
        reads = [
            size_of(shapes.get(operand, "")) for operand in re.findall(r"%([\w.\-]+)", operands)
        ]
        written = size_of(shape)
        if "gather" in name:
            reads = [min(size, size_of(shape, everywhere=True)) for size in reads]
        total += written + sum(reads)
    return total


def collectives(text: str) -> dict[str, tuple[int, int]]:
    """Counts transfers between devices in an HLO module: kind -> number and bytes of results."""
    kinds = "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"
    found = dict[str, tuple[int, int]]()
    for _, shape, kind, _ in INSTRUCTION.findall(text):
        name = kind.removesuffix("-start")
        if name in kinds:
            number, size = found.get(name, (0, 0))
            found[name] = number + 1, size + size_of(shape, everywhere=True)
    return found


def row_of(chip: Chip, program: Program, found: Figures) -> str:
    """Returns the cells of a program's row after its name."""
    time_of = max(found.operations / chip.peak, found.traffic / chip.bandwidth)
    useful, share = "", ""
    if program.useful and not found.loops:  # XLA counts a loop's body once
        useful = f"{program.useful / found.operations:.0%}"
        share = f"{program.useful / chip.peak / time_of:.0%}"
    moved = ", ".join(
        f"{n} {kind} {size / 1e6:.0f} MB" for kind, (n, size) in found.collectives.items()
    )
    return (
        f"{found.seconds:.1f} | {found.memory / 1e9:.2f} of {chip.memory / 1e9:.0f} | "
        f"{found.operations / 1e12:.3f} | {useful} | {found.traffic / 1e9:.2f} | "
        f"{1e3 * time_of:.2f} | {share} | {moved}"
    )


COLUMNS = (
    "network", "chip", "program", "compile, s", "memory, GB", "counted, TFLOP", "useful",
    "traffic, GB", "roofline, ms", "of peak", "collectives",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Compiles the chosen programs and prints a table; returns 1 if a program fails."""
    names = (*NETWORKS, "CLIP ViT-B/16", "core")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(names), help="of " + ", ".join(names))
    parser.add_argument("--chips", default=",".join(CHIPS), help="of " + ", ".join(CHIPS))
    parser.add_argument("--mesh", help="as data:2,model:2; by default each chip's own")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--scan", action="store_true", help="one body for all layers")
    parser.add_argument("--prefix", type=int, default=SHARED, help="cached tokens")
    parser.add_argument("--programs", default="", help="only those with this text in their name")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_platforms", "cpu")
    os.environ |= ENVIRONMENT
    failed = []
    print(f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|", sep="\n", flush=True)
    for name in chosen.networks.split(","):
        refuse_unknown("network", name, names)
    for chip_name in chosen.chips.split(","):
        refuse_unknown("chip", chip_name, CHIPS)
        chip = CHIPS[chip_name]
        devices = topologies.get_topology_desc(platform="tpu", topology_name=chip.topology).devices
        text = MESHES[chip_name] if chosen.mesh is None else chosen.mesh
        mesh = sharding.make_mesh(text, devices)
        where = f"{chip_name} {text}".strip()
        for name in chosen.networks.split(","):
            if name == "core":
                planned = core_programs(devices[0])
            elif name in NETWORKS:
                raw = dict(NETWORKS[name])
                raw["n_layer" if "n_layer" in raw else "num_hidden_layers"] = chosen.layers
                net = network(raw, mesh, devices[0], chosen.scan)
                planned = causal_programs(net, chip, chosen.prefix)
            else:
                net = network(CLIP, mesh, devices[0], False)
                planned = image_programs(net, chip)
            for program in planned:
                if chosen.programs not in program.name:
                    continue
                try:
                    found = figures(program)
                except jax.errors.JaxRuntimeError as error:
                    failed.append(f"{name}, {where}, {program.name}: {str(error)[:300]}")
                    continue
                print(
                    f"| {name} | {where} | {program.name} | {row_of(chip, program, found)} |",
                    flush=True,
                )
                if found.memory > chip.memory:
                    failed.append(f"{name}, {where}, {program.name}: {found.memory / 1e9:.1f} GB")
    for sentence in failed:
        print(f"failed: {sentence}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    # Networks and programs choose their numbers and kernels by the backend.
    with mock.patch.object(jax, "default_backend", lambda: "tpu"):
        try:
            sys.exit(main())
        except InputError as error:
            sys.exit(f"failed: {error}")
