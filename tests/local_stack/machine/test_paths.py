from pathlib import Path

from local_stack.machine.paths import CHECKOUT, cache_dir, python_path, state_dir

IN_CHECKOUT = CHECKOUT / ".headrace"


def test_downloads_go_where_the_user_says(tmp_path: Path) -> None:
    assert cache_dir({"HEADRACE_CACHE_DIR": str(tmp_path)}) == tmp_path
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "headrace"
    assert cache_dir({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "headrace"


def test_without_a_usable_home_downloads_stay_in_the_checkout() -> None:
    assert cache_dir({}) == IN_CHECKOUT / "cache"
    assert cache_dir({"HOME": ""}) == IN_CHECKOUT / "cache"
    assert cache_dir({"HOME": "/proc/nowhere"}) == IN_CHECKOUT / "cache"


def test_the_state_folder_is_in_the_checkout_unless_named(tmp_path: Path) -> None:
    assert state_dir({}) == IN_CHECKOUT / "state"
    assert state_dir({"HEADRACE_STATE_DIR": str(tmp_path)}) == tmp_path


def test_the_checkout_stands_in_front_of_the_user_s_own_modules() -> None:
    assert python_path({}) == str(CHECKOUT)
    assert python_path({"PYTHONPATH": ":/own"}) == f"{CHECKOUT}:/own"
    assert python_path({"PYTHONPATH": f"/own:{CHECKOUT}"}) == f"{CHECKOUT}:/own"
