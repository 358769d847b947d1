"""How programs of many methods are compiled."""

import jax
import pytest

from batch_calibration.methods import compiling


def count_names(*, methods, options):
    return jax.numpy.asarray(len(methods) + len(options))


@pytest.fixture
def fresh():
    """No function compiled before, and none that a test compiled after it."""
    compiling._jit_methods.cache_clear()
    compiling._jit.cache_clear()
    compiling._quick_options.cache_clear()
    yield
    compiling._jit_methods.cache_clear()
    compiling._jit.cache_clear()
    compiling._quick_options.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("looped", [True, False])
def test_a_function_is_compiled_once_for_its_methods(looped):
    run = compiling.jit_methods(count_names, looped=looped)
    assert int(run(methods=("icl", "bc"), options={})) == 2
    assert compiling.jit_methods(count_names, looped=looped) is run
    assert compiling.jit_methods(count_names, looped=not looped) is not run


@pytest.mark.usefixtures("fresh")
def test_what_another_xla_does_not_know_is_left_out(monkeypatch):
    unknown = {compiling.LEVEL: 0, "xla_cpu_no_such_option": False}
    monkeypatch.setattr(compiling, "WITHOUT_EMITTERS", unknown)
    run = compiling.jit_methods(count_names, looped=False)
    assert int(run(methods=("icl",), options={})) == 1
