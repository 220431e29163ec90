"""Runs sluice_check over many buckets in one process: each line of the input changes a bucket, and gets an answer."""
import base64, functools, io, json, pathlib, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "check"))
sys.dont_write_bytecode = True
import sluice_check

# The same statements are checked many times.
sluice_check.is_signed = functools.lru_cache(100_000)(sluice_check.is_signed)
sluice_check.point_of = functools.lru_cache(1_000)(sluice_check.point_of)


class Memory:
    def __init__(self, objects): self.objects, self.names = objects, list(objects)
    def open(self, path):
        data = self.objects.get(path)
        return None if data is None else (len(data), io.BytesIO(data))


base = {}
for line in sys.stdin:
    job = json.loads(line)
    if "base" in job: base = {path: base64.b64decode(data) for path, data in job["base"].items()}
    objects = dict(base)
    for path, data in job.get("change", {}).items():
        objects.pop(path, None)
        if data is not None: objects[path] = base64.b64decode(data)
    before = sum(sluice_check.is_signed.cache_info()[:2])
    began = time.process_time()
    answer = sluice_check.check(Memory(objects), **job["options"])
    seconds, signatures = time.process_time() - began, sum(sluice_check.is_signed.cache_info()[:2]) - before
    # The cache must not make a second check of the same bucket faster.
    if len(objects) > 500: sluice_check.is_signed.cache_clear()
    print(json.dumps([*answer, seconds, signatures]), flush=True)
