"""What the enrichments of a domain convert with: code to word, raw to measured value. Pure."""

from shared.conversions.code_words import CodeWords
from shared.conversions.fields import Conversion, converted
from shared.conversions.piecewise import Piecewise

__all__ = ["CodeWords", "Conversion", "Piecewise", "converted"]
