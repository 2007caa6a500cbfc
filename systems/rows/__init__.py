"""The specification's rows, and who answers for each: a test that carries its number, or a reason."""
