"""SentencePiece's model file, parsed: the fields that a conversion needs.

The sentencepiece library has a parser of its files, too, but that one needs the newest protobuf;
this one works with any version.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

# Names, numbers and defaults of sentencepiece_model.proto.
_SCHEMA = """
name: "corpusmill/sentencepiece.proto" package: "corpusmill.sentencepiece" syntax: "proto2"
message_type { name: "Piece"
  field { name: "piece" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "score" number: 2 label: LABEL_OPTIONAL type: TYPE_FLOAT }
  field { name: "type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "1" } }
message_type { name: "Trainer"
  field { name: "model_type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "1" }
  field { name: "treat_whitespace_as_suffix" number: 24 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "byte_fallback" number: 35 label: LABEL_OPTIONAL type: TYPE_BOOL } }
message_type { name: "Normalizer"
  field { name: "precompiled_charsmap" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "add_dummy_prefix" number: 3 label: LABEL_OPTIONAL type: TYPE_BOOL
          default_value: "true" }
  field { name: "remove_extra_whitespaces" number: 4 label: LABEL_OPTIONAL type: TYPE_BOOL
          default_value: "true" }
  field { name: "escape_whitespaces" number: 5 label: LABEL_OPTIONAL type: TYPE_BOOL
          default_value: "true" } }
message_type { name: "Model"
  field { name: "pieces" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".corpusmill.sentencepiece.Piece" }
  field { name: "trainer_spec" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".corpusmill.sentencepiece.Trainer" }
  field { name: "normalizer_spec" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".corpusmill.sentencepiece.Normalizer" } }
"""


def parse_model(content: bytes) -> Any:
    """Parse the bytes of a model file.

    Raises:
        google.protobuf.message.DecodeError: they are not a model.
    """
    file = text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("corpusmill.sentencepiece.Model")
    return message_factory.GetMessageClass(descriptor).FromString(content)
