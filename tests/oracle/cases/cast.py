"""Conversions from every dtype to every other."""

from recorded import Case

CASES = [
    *(
        Case(f"ops.cast(x, ms.{to})", "2,3", "fib")
        for to in (
            "float32",
            "float16",
            "bfloat16",
            "float64",
            "int32",
            "int64",
            "int8",
            "uint8",
            "int16",
            "uint16",
            "uint32",
            "uint64",
            "bool_",
        )
    ),
    Case("x.astype(ms.int32)", "8:T:special", "1"),
    Case("ops.Cast()(x, ms.float32)", "2,3", "fib"),
]
