"""What becomes of Python and NumPy values in `tf.convert_to_tensor`, `tf.constant` and `tf.Variable`.

    python -m tests.tf_cases.conversions tests/recorded/conversions_tensorflow.json     where TensorFlow is installed

The record says for every value and dtype what TensorFlow makes of it: dtype, shape and the first numbers, or the class
of the error. `test_misuse.py` compares gradtape with the record.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import json
import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = (
    "None",
    "tf.float32",
    "tf.float64",
    "tf.float16",
    "tf.bfloat16",
    "tf.int32",
    "tf.int64",
    "tf.int8",
    "tf.uint8",
    "tf.uint64",
    "tf.bool",
    "tf.string",
    "tf.complex64",
)

FORMS = {
    "convert": "tf.convert_to_tensor({value}, {dtype})",
    "hint": "tf.convert_to_tensor({value}, dtype_hint={dtype})",
    "constant": "tf.constant({value}, {dtype})",
    "variable": "tf.Variable({value}, dtype={dtype})",
}


class Integer(enum.IntEnum):
    A = 1


class Arraylike:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1.0, 2.0], dtype)


class Sequence:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return [1, 2][i]


class Failing:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("boom")


class Index:
    def __index__(self) -> int:
        return 3


class Float:
    def __float__(self) -> float:
        return 3.5


class OwnInt(int):
    pass


class OwnFloat(float):
    pass


class OwnStr(str):
    pass


Pair = collections.namedtuple("Pair", "a b")

SCOPE: dict[str, Any] = {
    "np": np,
    "ml_dtypes": ml_dtypes,
    "decimal": decimal,
    "fractions": fractions,
    "datetime": datetime,
    "array": array,
    "collections": collections,
    "E": Integer,
    "Obj": Arraylike,
    "Seq": Sequence,
    "Bad": Failing,
    "Idx": Index,
    "Flt": Float,
    "SubInt": OwnInt,
    "SubFloat": OwnFloat,
    "SubStr": OwnStr,
    "NT": Pair,
}

VALUES = (
    "1",
    "-1",
    "300",
    "1.5",
    "True",
    "1j",
    "'a'",
    "b'x'",
    "None",
    "2**31",
    "2**40",
    "2**63",
    "2**64",
    "2**70",
    "-2**31",
    "-2**63",
    "-2**63-1",
    "1e40",
    "float('inf')",
    "float('nan')",
    "[]",
    "[[]]",
    "[[],[]]",
    "[1,2]",
    "[1,2.5]",
    "[2.5,1]",
    "[True,1]",
    "[1,True]",
    "[True,2.5]",
    "[2.5,True]",
    "[True,False]",
    "[1,1j]",
    "[1j,1]",
    "[1.5,1j]",
    "['a','b']",
    "['a',b'b']",
    "['a',1]",
    "[1,'a']",
    "[None]",
    "[1,None]",
    "[[1,2],[3]]",
    "[[1],2]",
    "[1,[2]]",
    "[[1,2],[3,4]]",
    "(1,2)",
    "((1,2),[3,4])",
    "range(3)",
    "range(0)",
    "{1}",
    "{'a':1}",
    "{}",
    "int",
    "np.float64(1.5)",
    "np.float32(1.5)",
    "np.float16(1.5)",
    "np.int8(-3)",
    "np.uint8(200)",
    "np.int64(2**40)",
    "np.uint64(2**63)",
    "np.bool_(True)",
    "np.complex64(1j)",
    "np.str_('a')",
    "np.bytes_(b'a')",
    "[np.float64(1.5)]",
    "[np.int64(3)]",
    "[np.int8(3)]",
    "[np.float32(1.5),2]",
    "[2,np.float32(1.5)]",
    "[np.float64(1.5),1.5]",
    "[np.bool_(True)]",
    "[np.bool_(True),1]",
    "[np.int64(2**40)]",
    "[np.uint64(2**63)]",
    "[np.str_('a')]",
    "[np.complex64(1)]",
    "[np.float16(1)]",
    "[np.array(1),2]",
    "[np.array([1,2]),np.array([3,4])]",
    "[np.array([1.5,2]),[3,4]]",
    "[np.array([1,2]),np.array([3])]",
    "[np.array([1.,2.]),np.array([3,4])]",
    "np.array([1,2])",
    "np.array([1.5,2])",
    "np.array([1,2],np.int32)",
    "np.array([300,-1])",
    "np.array([1.5,300.7,-2.])",
    "np.array([1e40])",
    "np.array([True])",
    "np.array([1j])",
    "np.array(['a'])",
    "np.array([b'a'])",
    "np.array(['1'])",
    "np.array([None])",
    "np.array([1,2],object)",
    "np.array(['a',b'b'],object)",
    "np.array([1,'a'],object)",
    "np.array([[1,2],[3]],object)",
    "np.array([object()])",
    "np.datetime64('2020-01-01')",
    "np.array(['2020-01-01'],'M8[D]')",
    "np.timedelta64(1,'D')",
    "np.zeros(2,[('a',int)])",
    "np.zeros([0])",
    "np.zeros([0],int)",
    "np.array([1,2],'>i4')",
    "np.array([1.5],'>f8')",
    "np.ma.array([1,2],mask=[0,1])",
    "np.matrix([[1,2]])",
    "np.array([1,2],ml_dtypes.bfloat16)",
    "[ml_dtypes.bfloat16(1)]",
    "ml_dtypes.bfloat16(1.5)",
    "tf.constant(1)",
    "tf.constant(1.5)",
    "tf.constant('s')",
    "tf.Variable([1.,2.])",
    "tf.Variable(1)",
    "[tf.constant(1),2]",
    "[2,tf.constant(1)]",
    "[tf.constant(1),2.5]",
    "[2.5,tf.constant(1)]",
    "[tf.constant(1.),2]",
    "[tf.constant(1.),tf.constant(1)]",
    "[tf.constant([1,2]),tf.constant([1])]",
    "[tf.constant(1),None]",
    "[tf.constant(1),'a']",
    "[[tf.constant(1)],[2]]",
    "[tf.Variable(1.),2]",
    "[tf.constant(1.),True]",
    "[True,tf.constant(1.)]",
    "tf.TensorShape([1,2])",
    "tf.TensorShape([])",
    "tf.TensorShape([None])",
    "tf.TensorShape(None)",
    "[tf.TensorShape([1,2])]",
    "tf.float32",
    "np.float32",
    "E.A",
    "[E.A]",
    "SubInt(3)",
    "[SubInt(3)]",
    "SubFloat(1.5)",
    "SubStr('a')",
    "[SubStr('a')]",
    "Obj()",
    "[Obj()]",
    "Seq()",
    "Bad()",
    "[Bad()]",
    "Idx()",
    "[Idx()]",
    "Flt()",
    "[Flt()]",
    "decimal.Decimal('1.5')",
    "[decimal.Decimal('1.5')]",
    "fractions.Fraction(1,2)",
    "datetime.datetime(2020,1,1)",
    "array.array('d',[1.,2.])",
    "array.array('i',[1])",
    "bytearray(b'ab')",
    "memoryview(b'ab')",
    "memoryview(np.array([1,2]))",
    "NT(1,2)",
    "collections.deque([1,2])",
    "{'a':1}.values()",
    "{1:2}.keys()",
    "''",
    "'é'",
    "[[[1]]]",
    "[[1,2],[3,4],[5]]",
    "[[1,2],3]",
    "[(),()]",
    "[[1,2],np.array([3,4])]",
    "tf.IndexedSlices(tf.constant([1.]),tf.constant([0]),tf.constant([2]))",
    "[tf.constant('a'),'b']",
    "'\\ud800'",
    "['\\ud800']",
    "[float('nan'),1]",
    "[2**40,1]",
    "[2**40,1.5]",
    "[2**63]",
    "[2**63,1.5]",
    "[-2**63]",
    "[2**100]",
    "[2**100, 1.5]",
)


def outcome(expression: str, scope: dict[str, Any]) -> str:
    """dtype, shape and first numbers of the tensor that an expression makes, or the class of its error."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = np.asarray(eval(expression, dict(scope)).numpy())
    except Exception as error:
        return type(error).__name__
    return f"{found.dtype} {list(found.shape)} {found.ravel()[:3].tolist()}".replace("-nan", "nan")


def outcomes(tf: Any, form: str, dtype: str) -> list[str]:
    """The outcomes of all values in one form and dtype."""
    return [outcome(FORMS[form].format(value=value, dtype=dtype), {**SCOPE, "tf": tf}) for value in VALUES]


if __name__ == "__main__":
    import tensorflow

    found = {f"{form} {dtype}": outcomes(tensorflow, form, dtype) for form in FORMS for dtype in DTYPES}
    distinct = sorted({outcome for row in found.values() for outcome in row})
    number = {outcome: n for n, outcome in enumerate(distinct)}
    rows = {key: " ".join(str(number[outcome]) for outcome in row) for key, row in found.items()}
    with open(sys.argv[1], "w") as file:
        json.dump({"outcomes": distinct, "rows": rows}, file, indent=0)
        file.write("\n")
