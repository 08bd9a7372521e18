"""Locations of models."""

from __future__ import annotations

from rehydrate.embedding import installed_models
from rehydrate.embedding.model_files import find_model, models_home


def test_the_home_is_the_users_own_and_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert models_home({}) == tmp_path / ".cache" / "rehydrate" / "models"
    assert models_home({"REHYDRATE_HOME": "~/r"}) == tmp_path / "r" / "models"
    assert models_home({"REHYDRATE_HOME": "", "XDG_CACHE_HOME": ""}) == models_home({})


def test_a_folder_is_a_model_where_it_has_a_manifest(tmp_path):
    environ = {"REHYDRATE_HOME": str(tmp_path)}
    for name in ("b", "a", ".half.new", "empty"):
        model_folder_of = tmp_path / "models" / name
        model_folder_of.mkdir(parents=True)
        if name != "empty":
            (model_folder_of / "rehydrate.json").write_text("{}")
    assert [folder.name for folder in installed_models(environ)] == ["a", "b"]
    assert find_model("a", environ) == tmp_path / "models" / "a"
    assert find_model("empty", environ) is None
    assert find_model("../models/a", environ) is None
