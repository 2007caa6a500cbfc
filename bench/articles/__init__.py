"""The headlines of the articles behind the systems: theirs, ours, and what is possible at best.

    python -m bench.articles                 every figure, at full size
    python -m bench.articles --quick         the same, small
    python -m bench.articles --only n+1      one of them (may be given more than once)

Ours are measured here and now; theirs are what the articles say, or what their code comes to; ideal is what
no program could be better than.
"""
