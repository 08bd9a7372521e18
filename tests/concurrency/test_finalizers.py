"""Texts of a class with a `__del__`: it may use what lets go of the text."""

from __future__ import annotations

from tests.stress.programs import run_python


def test_a_text_that_is_dropped_to_make_room_may_ask_its_originals():
    ended = run_python(
        """
        import os, sys
        from rehydrate.prompt import HeldOriginals

        held = HeldOriginals(1_500)

        class Text(str):
            def __del__(self):
                print(self[:1], len(held))

        for letter in "abc":
            held.put(Text(letter * 500))
        print(len(held))
        sys.stdout.flush()
        os._exit(0)  # the others are let go of at the exit
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "a 2\n2\n", "")


def test_a_text_of_a_forgotten_conversation_may_look_for_echoes():
    ended = run_python(
        """
        from rehydrate.prompt import HeldOriginals, History, PromptIR, RemoveEchoes, Target

        remove, target = RemoveEchoes(), Target(originals=HeldOriginals())

        def look(text):
            entry = {"role": "user", "content": text}
            remove(PromptIR(history=History((entry,), "anthropic")), target)

        class Text(str):
            def __del__(self):
                look("z " * 3_000)
                print("gone")

        look(Text("line\\n" * 1_000))
        print("looked")
        for number in range(12):
            look(f"{number} " * 3_000)
        print("done")
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "looked\ngone\ndone\n", "")
