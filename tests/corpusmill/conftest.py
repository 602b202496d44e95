from hypothesis import settings

# A first call compiles a kernel, which takes longer than any deadline; and the same examples are
# tried every time, so that a test that has passed keeps passing until the code changes.
settings.register_profile("corpusmill", max_examples=20, deadline=None, derandomize=True)
settings.load_profile("corpusmill")
