"""Checks the receipts and statements of a Sluice export, without the service: docs/receipts.md describes the bytes.

python3 sluice_check.py FOLDER-OR-URL [--since DATE] [--key KEY]... [--head NUMBER:DIGEST] [--deep] [--urls FILE]
    [--document FILE]

It needs Python 3.9 and nothing else. It exits with 0: right, 1: wrong, 2: could not be checked.
"""
import argparse, collections, concurrent.futures, datetime, errno, hashlib, json, os, queue, re, stat, sys
import threading, time
import urllib.error, urllib.parse, urllib.request, zlib

MEBIBYTE, LARGEST, SUMS, FULL = 2**20, 2**53 - 1, ("rows", "bytes", "files"), ("delivered", "empty")
class Wrong(Exception): """Something is not as it was signed."""
class Unchecked(Exception): """It cannot be said whether it is right."""
def must(right, message):
    if not right: raise Wrong(message)

# Ed25519 by RFC 8032. A point is (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z. Only public values: time tells nothing.
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D, ROOT = -121665 * pow(121666, -1, P) % P, pow(2, (P - 1) // 4, P)
def add(one, other):
    a, b = (one[1] - one[0]) * (other[1] - other[0]) % P, (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P
def double(point):
    a, b, c = point[0] * point[0] % P, point[1] * point[1] % P, 2 * point[2] * point[2] % P
    h, g = a + b, a - b
    e, f = h - (point[0] + point[1]) ** 2 % P, c + g
    return e * f % P, g * h % P, f * g % P, e * h % P
def point_of(data):
    """The point of 32 bytes; None if they are not exactly those of a point."""
    y, sign = int.from_bytes(data, "little") & (2**255 - 1), data[31] >> 7
    if y >= P: return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * v**3 * pow(u * v**7, (P - 5) // 8, P) % P
    if v * x * x % P == -u % P: x = x * ROOT % P
    if v * x * x % P != u or (x == 0 and sign): return None
    if x % 2 != sign: x = P - x
    return x, y, 1, x * y % P
BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
def is_small(point):
    """Whether the order of the point divides 8. Such a key fits signatures that it never made."""
    point = double(double(double(point)))
    return point[0] == 0 and point[1] == point[2]
def is_signed(point, key, signature, message):
    """Whether R = sB - kA, with the bytes of R compared."""
    s = int.from_bytes(signature[32:], "little")
    if s >= L: return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    minus = (P - point[0], point[1], 1, P - point[3])
    table, result = (None, BASE, minus, add(BASE, minus)), (0, 1, 1, 0)
    for bit in range(252, -1, -1):
        result, entry = double(result), (s >> bit & 1) + 2 * (k >> bit & 1)
        if entry: result = add(result, table[entry])
    inverse = pow(result[2], -1, P)
    x, y = result[0] * inverse % P, result[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]

# JSON. A value is accepted only if writing it again gives the same bytes.
def whole(text):
    if len(text) > 17 or abs(int(text)) > LARGEST: raise ValueError("a number is too large")
    return int(text)
def refuse(text): raise ValueError("a number is not whole")
def members(pairs):
    if len(dict(pairs)) != len(pairs): raise ValueError("a name is there twice")
    if not all(name.isascii() for name, _ in pairs): raise ValueError("a name is not ASCII")
    return dict(pairs)
def is_flat(value, level=0):
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return level <= 64 and all(is_flat(one, level + 1) for one in inner)
def canonical(value): return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
def indented(value): return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
def parse(data, path, write=canonical):
    try:
        value = json.loads(data.decode(), object_pairs_hook=members, parse_int=whole, parse_float=refuse,
            parse_constant=refuse)
        if type(value) is not dict or not is_flat(value): raise ValueError("it is no object, or nested too deep")
        if write(value) != data: raise ValueError("the value has other bytes")
        return value
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{path} is not JSON as Sluice writes it: {str(error)[:60]}")
def is_text(value): return type(value) is str
def is_count(value): return type(value) is int and value >= 0
def is_hex(value, digits=64): return is_text(value) and re.fullmatch("[0-9a-f]{%d}" % digits, value) is not None
def is_instant(value):
    shape = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
    if not is_text(value) or not re.fullmatch(shape, value): return False
    try: return bool(datetime.datetime.fromisoformat(value[:-1]))
    except ValueError: return False
KINDS = {"text": is_text, "count": is_count, "hex": is_hex, "instant": is_instant,
    "list": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict, "flag": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int, "any": lambda value: True}
def expect(value, where, **shape):
    """Requires that the object has these members. A kind that ends with `_` may be null."""
    must(type(value) is dict, f"{where} is not an object")
    for name, kind in shape.items():
        right = name in value and (KINDS[kind.rstrip("_")](value[name]) or (kind[-1] == "_" and value[name] is None))
        must(right, f"{where}: {name} is missing or wrong")

# Where objects are. open(path) gives None or (size, pieces): the pieces need not be read.
class Folder:
    def __init__(self, root):
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root): raise Unchecked(f"{root} is not a folder")
    def paths(self):
        def stop(error): raise error
        for folder, folders, names in os.walk(self.root, onerror=stop):
            inside = os.path.relpath(folder, self.root).replace(os.sep, "/") + "/"
            names += [name for name in folders if os.path.islink(os.path.join(folder, name))]
            yield from ((inside if inside != "./" else "") + name for name in names)
    def open(self, path, expected=0, only_size=False):
        at, parts = self.root, path.split("/")
        for part in parts:
            at = os.path.join(at, part)
            try: info = os.lstat(at)
            except (FileNotFoundError, NotADirectoryError): return None
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG: return None
                raise
            must(not stat.S_ISLNK(info.st_mode), f"{path} is a link, or below one")
        must(stat.S_ISREG(info.st_mode), f"{path} is not a file")
        return info.st_size, self.pieces(at)
    def pieces(self, at):
        with open(at, "rb") as file: yield from iter(lambda: file.read(MEBIBYTE), b"")
class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_): return None
class Http:
    def __init__(self, address_of, seconds, names=None):
        self.address_of, self.seconds, self.names = address_of, seconds, names
        self.opener = urllib.request.build_opener(NoRedirect)
    def paths(self): return self.names
    def open(self, path, expected=0, only_size=False):
        address, pieces, began = self.address_of(path), queue.Queue(8), time.monotonic()
        if address is None: return None
        if not re.match("https?://", address): raise Unchecked(f"the address of {path} is not http or https")
        # A thread of its own reads: a server that drips its headers never lets a timeout of the socket pass.
        threading.Thread(target=self.fetch, args=(address, only_size, pieces), daemon=True).start()
        def get(received=0):
            try: one = pieces.get(timeout=max(0, began + self.seconds + received / 1e5 - time.monotonic()))
            except queue.Empty: raise Unchecked(f"{path}: the store takes too long")
            if isinstance(one, Exception): raise Unchecked(f"{path}: {one}")
            return one
        def body(received=0):
            for piece in iter(lambda: get(received), b""):
                received += len(piece)
                yield piece
        status, size = get()
        if status in (403, 404, 410): return None
        if status not in (200, 206, 416): raise Unchecked(f"{path}: the store answered with {status}")
        return size, body()
    def fetch(self, address, only_size, pieces):
        headers = {"Accept-Encoding": "identity", **({"Range": "bytes=0-0"} if only_size else {})}
        try:
            try: answer = self.opener.open(urllib.request.Request(address, headers=headers), timeout=self.seconds)
            except urllib.error.HTTPError as error: answer = error
            with answer:
                name = "Content-Length" if answer.code == 200 else "Content-Range"
                size = answer.headers.get(name, "").split("/")[-1]
                size, received = int(size) if re.fullmatch("[0-9]{1,16}", size) else None, 0
                pieces.put((answer.code, size))
                while not only_size and answer.code == 200:
                    piece = answer.read1(65536)
                    if not piece: break
                    received += len(piece)
                    pieces.put(piece)
            pieces.put(b"" if only_size or size in (None, received) else Unchecked("the answer was cut"))
        except Exception as error: pieces.put(error)

AFTER = {kind: (kind,) for kind in (*FULL, "open", "not_due", "accepted")}
CHANGES = {"supplement": ("delivered",), "remade": FULL, "removed": FULL, "erased": FULL, "moved": FULL}
NOTES = {"accepted": {"by": "any", "reason": "any"}, "supplement": {"rows": "count"},
    "moved": {"from": "text", "to": "text"},
    "removed": {"by": "any", "request": "any", "shown": "count_"},
    "erased": {"request": "any", "asked_at": "instant", "rows": "count", "files": "list"}}
Key = collections.namedtuple("Key", "id fingerprint public point trusted")
class Check:
    def __init__(self, store, since="", keys=(), head=None, deep=False, document=None):
        self.document, self.digests, self.erased = document, {}, collections.Counter()
        self.store, self.since, self.given, self.head, self.deep = store, since, keys, head, deep
        self.keys, self.intervals, self.chains, self.owed, self.named, self.lines = [], {}, set(), set(), set(), []
        self.newest = self.digest = self.signer = None
        self.changed, self.lock = 0, threading.Lock()

    def run(self):
        names = self.store.paths()
        self.names = None if names is None else sorted(names)
        above = [re.match(r"((?:.*?/)??)_sluice/", name) for name in self.names or ["_sluice/"]]
        folders = {one[1] for one in above if one}
        if "" not in folders and len(folders) != 1:
            raise Unchecked(f"there are {len(folders)} folders _sluice: name the place of one")
        self.base = "" if "" in folders else folders.pop()
        if self.names is not None:
            self.names = [name[len(self.base):] for name in self.names if name.startswith(self.base)]
        self.read_statements()
        self.read_objects()
        if self.document is not None: self.read_document()
        self.lines.append(f"Right. The head is {self.newest['number']}:{self.digest}")
    def open(self, path, *more): return self.store.open(self.base + path, *more)
    def read(self, path, most):
        found, data = self.open(path), bytearray()
        if found is None: return None
        for piece in found[1]:
            data += piece
            must(len(data) <= most, f"{path} has more than {most} bytes")
        return bytes(data)

    def read_keys(self):
        path = "_sluice/keys.json"
        data = self.read(path, MEBIBYTE)
        must(data is not None, f"{path} is missing")
        listed = parse(data, path)
        must(listed.get("type") == "sluice.keys.v1" and type(listed.get("keys")) is list,
            f"{path} is not a list of keys")
        for number, entry in enumerate(listed["keys"], 1):
            where = f"{path}: key {number}"
            expect(entry, where, key_id="text", algorithm="text", public_key="hex", created_at="instant",
                signed_by="text")
            signature, public = entry.pop("signature", None), bytes.fromhex(entry["public_key"])
            fingerprint, point = hashlib.sha256(public).hexdigest(), point_of(public)
            must(point is not None and not is_small(point) and entry["algorithm"] == "Ed25519",
                f"{where} is not a safe key")
            must(entry["key_id"] == fingerprint[:16] and not self.key_of(entry["key_id"]),
                f"{where} has a wrong key_id")
            given = not self.given or entry["public_key"] in self.given or fingerprint in self.given
            key = Key(entry["key_id"], fingerprint, public, point, given)
            signer = key if entry["signed_by"] == key.id else self.keys[-1] if self.keys else None
            must(signer and signer.id == entry["signed_by"],
                f"{where} is signed neither by itself nor by the key before")
            must(self.signs(signer, signature, entry), f"{where} has a wrong signature")
            self.keys.append(key._replace(trusted=given or (signer is not key and signer.trusted)))
        for one in self.given:
            must(any(one in (key.fingerprint, key.public.hex()) for key in self.keys),
                f"{path} does not contain the given key {one}")
    def key_of(self, name): return next((key for key in self.keys if key.id == name), None)
    def signs(self, key, signature, value):
        return is_hex(signature, 128) and is_signed(key.point, key.public, bytes.fromhex(signature), canonical(value))
    def signer_of(self, value):
        receipt = value.get("receipt")
        if type(receipt) is not dict or receipt.get("algorithm") != "Ed25519": return None
        key = self.key_of(receipt.get("key_id"))
        signed = {name: one for name, one in value.items() if name != "receipt"}
        return key if key and self.signs(key, receipt.get("signature"), signed) else None

    def read_statements(self):
        number = 1
        while True:
            path = f"_sluice/statements/{number}.json"
            data = self.read(path, 64 * MEBIBYTE)
            if data is None: break
            if number == 1: self.read_keys()
            statement, digest = parse(data, path), hashlib.sha256(data).hexdigest()
            signer = self.signer_of(statement)
            must(signer, f"{path} has no right signature")
            order = [key.id for key in self.keys]
            must(not self.signer or order.index(signer.id) >= order.index(self.signer.id),
                f"{path} is signed by an earlier key")
            self.read_statement(statement, number, path)
            must(not self.head or self.head[0] != number or self.head[1] == digest, f"{path} is not the given head")
            self.digests[number] = digest
            self.newest, self.digest, self.signer, number = statement, digest, signer, number + 1
        if self.names is None:
            later = any(self.open(f"_sluice/statements/{number + more}.json", 0, True) for more in range(1, 17))
        else:
            listed = [name[19:-5] for name in self.names if re.fullmatch(r"_sluice/statements/[1-9][0-9]*\.json", name)]
            later = any((len(one), one) > (len(str(number)), str(number)) for one in listed)
        must(not later, f"{path} is missing, and there is a later one")
        if number == 1: raise Unchecked("there is no statement")
        must(not self.head or self.head[0] < number, f"{path} is missing, and the given head is not reached")
        must(not self.owed, f"{min(self.owed, default='')} was delivered in an earlier chain, and is not in the newest")
        must(self.signer.trusted,
            f"the newest statement is signed by {self.signer.fingerprint}, which follows from no given key")
        found = self.newest["reconciliation"]
        total = found["more"] + sum(len(found[name]) for name in ("missing", "changed", "stray"))
        what = f", and {total} objects were missing, changed or in no manifest" if total else ""
        self.lines.append(f"Statement {number - 1} is " + (f"reconciled{' in part' if found.get('part') else ''}{what}." if found["at"] else
            f"not reconciled: {found['reason']}."))
        self.lines.append(f"Key {self.signer.id} is given, or follows from a given key." if self.given else
            f"Key {self.signer.fingerprint} is from the bucket. Who can write there could have put it there: "
            "compare it, or use --key.")

    def read_statement(self, now, number, path):
        expect(now, path, batch_export_id="text", chain="text", previous="object_", begins="object_",
            made_at="instant", era="text",
            place="object", period="object", schedule="object", source="object", definition="object", bookings="list",
            balance="object", reconciliation="object", acknowledged="object_", type="text", number="int")
        must(now["type"] == "sluice.statement.v1" and now["number"] == number, f"{path} has another type or number")
        expect(now["place"], f"{path}: place", type="text", bucket="text_", prefix="text")
        expect(now["period"], f"{path}: period", start="instant", end="instant")
        expect(now["reconciliation"], f"{path}: reconciliation", state="text", at="instant_", reason="text_",
            missing="list", changed="list", stray="list", more="count")
        found = now["reconciliation"]
        if found["state"] == "listed":
            must(found["at"] and found["reason"] is None, f"{path}: reconciliation needs its time, and no reason")
        else:
            must(found["state"] == "not_listed" and found["reason"] is not None and found["at"] is None
                and not (found["missing"] or found["changed"] or found["stray"] or found["more"]),
                f"{path}: what was not listed needs a reason, and has found nothing")
        last, begins, previous, closing = self.newest, now["begins"], now["previous"], dict.fromkeys(SUMS, 0)
        must(not last or last["batch_export_id"] == now["batch_export_id"], f"{path} is of another export")
        if begins is None:
            must(last and now["chain"] == last["chain"], f"{path} continues another chain")
            must(previous and previous.get("sha256") == self.digest and type(previous.get("number")) is int
                and previous["number"] == number - 1, f"{path} does not name the statement before")
            must(now["period"]["start"] == last["period"]["end"],
                f"{path} does not begin where the period before ended")
            closing = last["balance"]["closing"]
        else:
            expect(begins, f"{path}: begins", reason="text", last_number="count", last_sha256="hex_")
            must(begins["reason"] in (("restored", "replaced") if last else ("first", "restored", "replaced"))
                and begins["last_number"] == number - 1 and begins["last_sha256"] == self.digest and previous is None
                and now["chain"] not in self.chains, f"{path} does not begin a chain as it should")
            if last: self.lines.append(f"Statement {number} begins a new chain: {begins['reason']}")
            for start, (end, after) in self.intervals.items():
                if after["state"] == "delivered": self.owed.add((start, end))
            self.intervals, self.early, self.first = {}, [], now["period"]["start"]
            self.chains.add(now["chain"])
        due, at = now["period"]["start"], ""
        parts = {name: dict.fromkeys(SUMS, 0) for name in ("delivered", "removed", "erased")}
        for index, booking in enumerate(now["bookings"], 1):
            where = f"{path}: booking {index}"
            expect(booking, where, kind="text", start="instant", end="instant", at="instant", before="object_",
                after="object", note="any")
            if booking["before"] is None and booking["end"] <= self.first:
                # A backfill delivered it: it is from before the first period of the chain.
                right = booking["start"] < booking["end"] and booking["start"] not in self.intervals
                must(right, f"{where} is there already, or empty")
                self.early.append((booking["start"], booking["end"]))
            elif booking["before"] is None:
                must(booking["start"] == due and due < booking["end"] and due not in self.intervals,
                    f"{where} does not begin at {due}")
                due = booking["end"]
            else:
                must(at <= booking["at"], f"{where} is earlier than the one before")
                at = booking["at"]
            self.book(booking, parts, where)
        self.early.sort()
        for one, other in zip(self.early, self.early[1:]):
            must(one[1] <= other[0], f"{path}: two intervals overlap at {other[0]}")
        must(due == now["period"]["end"], f"{path} has no interval at {due}, or one after its period")
        for part in ("opening", *parts, "closing"):
            expect(now["balance"].get(part), f"{path}: {part}", rows="int", bytes="int", files="int")
        for name in SUMS:
            delivered, removed, erased = (parts[part][name] for part in ("delivered", "removed", "erased"))
            right = (closing[name], delivered, removed, erased, closing[name] + delivered - removed - erased)
            said = tuple(now["balance"][part][name] for part in ("opening", *parts, "closing"))
            must(said == right, f"{path}: the balance of {name} does not add up")

    def book(self, booking, parts, where):
        kind, start, end = booking["kind"], booking["start"], booking["end"]
        before, after, note = booking["before"], booking["after"], booking["note"]
        held = self.intervals.get(start)
        must(before is None or (held and held[0] == end and canonical(held[1]) == canonical(before)),
            f"{where}: `before` is not what the bookings before have left")
        expect(after, where, state="text", rows="count", bytes="count", files="count")
        must(after["state"] in AFTER.get(kind, CHANGES.get(kind, ())), f"{where} has a wrong kind, or a wrong state")
        must(kind not in CHANGES or (before and before["state"] in FULL),
            f"{where} changes an interval that was not delivered")
        if after["state"] in FULL:
            expect(after, where, place="text", manifest="object_", generation="count", key_digest="text_",
                settled="flag", pending="list")
            if after["manifest"] is not None: expect(after["manifest"], where, key="text", sha256="hex")
        empty = {"delivered": (), "empty": ("rows",)}.get(after["state"], SUMS)
        must(all(after[name] == 0 for name in empty), f"{where} has rows, bytes or files in the state {after['state']}")
        if kind in NOTES: expect(note, f"{where}: note", **NOTES[kind])
        else: must(note is None or (kind in ("open", "not_due") and type(note) is dict and "reason" in note),
            f"{where} has a wrong note")
        part = kind if kind in ("removed", "erased") else "delivered"
        grown = {name: after[name] - (before[name] if before else 0) for name in SUMS}
        must(part != "delivered" or kind == "moved" or grown["rows"] >= 0, f"{where} takes rows away")
        must(kind != "supplement" or note["rows"] == grown["rows"], f"{where} adds other rows than its note says")
        must(kind != "erased" or note["rows"] == -grown["rows"], f"{where} erases other rows than its note says")
        must(kind != "moved" or (note["from"], note["to"]) == (before["place"], after["place"]),
            f"{where} moves elsewhere")
        if kind == "erased" and is_text(note["request"]): self.erased[note["request"]] += note["rows"]
        for name in SUMS: parts[part][name] += grown[name] if part == "delivered" else -grown[name]
        self.intervals[start] = end, after
        if after["state"] == "delivered": self.owed.discard((start, end))

    def path_of(self, key):
        prefix = self.newest["place"]["prefix"]
        inside = prefix + "/" if prefix else ""
        must(key.startswith(inside) and not re.search(r"[\0\\]", key) and not {"", ".", ".."} & set(key.split("/")),
            f"{key} is not a key below the place of the export")
        return key[len(inside):]
    def read_objects(self):
        place, others, work = self.newest["place"], collections.Counter(), []
        complete = not self.since and self.names is not None
        here = place["type"].lower() + "://" + "/".join(filter(None, (place["bucket"], place["prefix"])))
        for start, (end, after) in self.intervals.items():
            if after["state"] not in FULL or end < self.since: continue
            if after["place"] != here: others[after["place"]] += 1
            elif after["manifest"] is None: complete = False
            else: work.append((self.path_of(after["manifest"]["key"]), start, end, after))
        pool = concurrent.futures.ThreadPoolExecutor(1 if isinstance(self.store, Folder) else 16)
        try: collections.deque(pool.map(lambda one: self.read_manifest(*one), work), 0)
        finally: pool.shutdown(wait=False, cancel_futures=True)
        if complete: self.read_strays()
        else: self.lines.append("Objects that no manifest names were not looked for.")
        opened = sorted(start for start, (_, after) in self.intervals.items() if after["state"] == "open")
        if opened: self.lines.append(f"{len(opened)} open: {', '.join(opened[:5])}{', ...' if len(opened) > 5 else ''}")
        for name, number in others.items():
            self.lines.append(f"{number} intervals are at {name}, and were not looked at.")
        if self.changed: self.lines.append(f"{self.changed} manifests are newer than the newest statement.")

    def read_manifest(self, path, start=None, end=None, after=None):
        data, said = self.read(path, 16 * MEBIBYTE), self.newest
        must(data is not None, f"{path} is missing")
        manifest = parse(data, path, indented)
        booked = after is not None and hashlib.sha256(data).hexdigest() == after["manifest"]["sha256"]
        expect(manifest, path, batch_export_id="text", data_interval_start="instant", data_interval_end="instant",
            generation="count",
            total_rows="count", total_bytes="count", rejected_rows="count", files="list", rejected_files="list")
        must(manifest["batch_export_id"] == said["batch_export_id"], f"{path} is of another export")
        names = (manifest["data_interval_start"], manifest["data_interval_end"])
        must(after is None or names == (start, end), f"{path} is of another interval")
        if not booked:
            signer = self.signer_of(manifest)
            must(signer and signer.trusted, f"{path} is not the manifest of its booking, and has no right receipt")
            known = self.intervals.get(manifest["data_interval_start"])
            if known: newer = manifest["generation"] > known[1].get("generation", -1)
            else: newer = names[0] >= said["period"]["end"] or names[1] <= self.first
            newer = newer or (after is None and "moved_to" in manifest)
            must(newer, f"{path} is not the manifest of a booking, nor a newer one")
            self.changed += 1
        files, rejected = manifest["files"], manifest["rejected_files"]
        for file in files + rejected:
            expect(file, f"{path}: a file", key="text", rows="count", bytes="count", sha256="hex")
        must(manifest["total_rows"] == sum(file["rows"] for file in files)
            and manifest["total_bytes"] == sum(file["bytes"] for file in files)
            and manifest["rejected_rows"] == sum(file["rows"] for file in rejected), f"{path} has wrong totals")
        must(not booked or (manifest["generation"], manifest["total_rows"], manifest["total_bytes"], len(files)) == (
            after["generation"], after["rows"], after["bytes"], after["files"]),
            f"{path} has other totals than its booking")
        for name in [path] + [self.path_of(file["key"]) for file in files + rejected]:
            with self.lock:
                must(name not in self.named, f"{name} is named twice")
                self.named.add(name)
        for file in files: self.read_file(file, manifest.get("format"), manifest.get("compression"))
        for file in rejected: self.read_file(file, "JSONLines", None)
    def read_file(self, file, kind, compression):
        path, size = self.path_of(file["key"]), file["bytes"]
        found, digest, length = self.open(path, size, not self.deep), hashlib.sha256(), 0
        must(found is not None, f"{path} is missing")
        must(found[0] in (None, size), f"{path} has {found[0]} bytes instead of {size}")
        if not self.deep: return
        for piece in found[1]:
            digest.update(piece)
            length += len(piece)
            must(length <= size, f"{path} has more than {size} bytes")
        must(digest.hexdigest() == file["sha256"], f"{path} has another SHA-256 than its manifest says")
        if kind not in ("JSONLines", "CSV") or compression not in (None, "gzip"): return
        lines, quotes = 0, 0
        for piece in unpacked(self.open(path, size)[1], path) if compression else self.open(path, size)[1]:
            # A line feed between quotes is a part of a cell.
            for at, part in enumerate(piece.split(b'"') if kind == "CSV" else (piece,)):
                quotes += at > 0
                if quotes % 2 == 0: lines += part.count(b"\n")
        must(lines == file["rows"] or (kind == "CSV" and lines == file["rows"] + 1),
            f"{path} has {lines} rows instead of {file['rows']}")
    def read_document(self):
        """A certificate of erasure or a delivery record: signed, about this export, by statements that are here."""
        path, export = "the document", self.newest["batch_export_id"]
        data = self.document
        document = parse(data[:-1] if data.endswith(b"\n") else data, path)
        kind = document.get("type")
        must(kind in ("sluice.erasure.v1", "sluice.delivery.v1"), f"{path} has an unknown type")
        signer = self.signer_of(document)
        must(signer and signer.trusted, f"{path} has no right signature")
        listed = document.get("intervals" if kind == "sluice.erasure.v1" else "exports")
        must(type(listed) is list and all(type(one) is dict for one in listed), f"{path} has no list")
        if kind == "sluice.delivery.v1":
            listed = [one for one in listed if one.get("batch_export_id") == export and one.get("statement")]
            must(len(listed) == 1, f"{path} does not have this export")
        else: must(document.get("batch_export_id") == export, f"{path} is about another export")
        for one in listed:
            named = one.get("statement")
            must(type(named) is dict and is_count(named.get("number"))
                and self.digests.get(named["number"]) == named.get("sha256"),
                f"{path} names a statement that is not in the folder")
        if kind == "sluice.erasure.v1":
            request = document.get("request")
            must(is_text(request) and request in self.erased and self.erased[request] == document.get("rows"),
                f"{path} has other rows than statements say")
            self.lines.append(f"The document is right: {document['rows']} rows were erased.")
        else: self.lines.append(f"The document is right: the record of {document.get('month')}.")
    def read_strays(self):
        def is_ours(name):
            is_note = name.split("/")[-1].startswith((".sluice-test-", ".sluice-owner-"))
            return is_note or name in self.named or re.match("(_sluice|metadata)/", name)
        for name in self.names:
            if name.endswith("_manifest.json") and not is_ours(name): self.read_manifest(name)
        strays = [name for name in self.names if not is_ours(name)]
        must(not strays or self.newest["place"].get("table") == "iceberg", f"{strays and strays[0]} is in no manifest")
        if strays: self.lines.append(f"{len(strays)} objects are in no manifest: snapshots of the table may need them.")
    def months(self):
        months = {}
        for start, (_, after) in sorted(self.intervals.items()):
            month = months.setdefault(start[:7], collections.Counter())
            month.update({"intervals": 1, "rows": after["rows"], "bytes": after["bytes"]})
            month[after["state"]] += 1
        columns = ("intervals", *FULL, "accepted", "open", "rows", "bytes")
        return [" ".join([month, *(f"{name} {counts[name]}" for name in columns)]) for month, counts in months.items()]

def unpacked(pieces, path):
    """The bytes of a gzip file of one member, at most a mebibyte at a time."""
    tool = zlib.decompressobj(31)
    try:
        for piece in pieces:
            while piece:
                yield tool.decompress(piece, MEBIBYTE)
                piece = tool.unconsumed_tail
        yield tool.flush()
        must(tool.eof and not tool.unused_data, f"{path} does not end as gzip does")
    except zlib.error as error: raise Wrong(f"{path} cannot be unpacked: {error}")
def check(store, **options):
    """Gives the exit code and the lines to print."""
    job, code = Check(store, **options), 0
    try: job.run()
    except Wrong as error: code, _ = 1, job.lines.append(f"WRONG: {str(error)[:500]}")
    except Exception as error: code, _ = 2, job.lines.append(f"NOT CHECKED: {str(error)[:500]}")
    return code, ["".join(one if one.isprintable() else "?" for one in line) for line in job.months() + job.lines]
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("place", nargs="?")
    for name in ("--since", "--head", "--urls", "--document"): parser.add_argument(name)
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--timeout", default="60")
    given = parser.parse_args()
    head = re.fullmatch("([1-9][0-9]{0,14}):([0-9a-f]{64})", given.head or "")
    for wrong, message in ((bool(given.urls) == bool(given.place), "give one folder or address, or --urls"),
            (given.since is not None and not is_instant(f"{given.since}T00:00:00.000000Z"),
                "--since is not a date: write 2026-11-30"),
            (given.head is not None and not head, "--head is not a number, a colon and a digest of 64 digits"),
            (not all(map(is_hex, given.key)), "--key is not a public key or a fingerprint: 64 digits in lower case"),
            (not re.fullmatch("[1-9][0-9]{0,5}", given.timeout), "--timeout is not a number of seconds")):
        if wrong: parser.error(message)
    seconds = int(given.timeout)
    if given.urls:
        with open(given.urls, encoding="utf-8") as file: addresses = json.load(file)
        store = Http(addresses.get, seconds, list(addresses))
    elif re.match("https?://", given.place):
        base, mark, query = given.place.partition("?")
        store = Http(lambda path: base.rstrip("/") + "/" + urllib.parse.quote(path, safe="/") + mark + query, seconds)
    else: store = Folder(given.place)
    document = None
    if given.document:
        with open(given.document, "rb") as file: document = file.read()
    return check(store, since=given.since or "", keys=given.key, head=head and (int(head[1]), head[2]), deep=given.deep,
        document=document)
if __name__ == "__main__":
    try: CODE, LINES = main()
    except Exception as error: CODE, LINES = 2, [f"NOT CHECKED: {error}"]
    sys.stdout.reconfigure(errors="replace")
    print("\n".join(LINES), flush=True)
    os._exit(CODE)
