package decode

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkScalar adds an Error if v is not a valid string, number, bool, enum or bytes for the field.
// Numbers may be in quotes, and bytes must be text in base64; integers must be in range. A string
// field accepts no unquoted number or bool.
func (w *walk) checkScalar(at *field.Path, v any, fd protoreflect.FieldDescriptor) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if _, ok := v.(string); !ok {
			w.errorf(at, "must be a string, found %s%s", describeValue(v), quoteHint(v))
		}
	case protoreflect.BoolKind:
		if _, ok := v.(bool); !ok {
			w.errorf(at, "must be true or false, found %s", describeValue(v))
		}
	case protoreflect.BytesKind:
		if text, ok := v.(string); !ok || !isBase64(text) {
			w.errorf(at, "must be bytes in base64, found %s", describeValue(v))
		}
	case protoreflect.EnumKind:
		w.checkEnum(at, v, fd.Enum())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if text, ok := numberText(v); !ok || !isFloat(text) {
			w.errorf(at, "must be a number, found %s", describeValue(v))
		}
	default:
		if reason := integerFault(v, fd.Kind()); reason != "" {
			w.errorf(at, "%s", reason)
		}
	}
}

// checkEnum adds an Error if v is neither the exact name nor the number of one of the enum's
// values. A number in quotes is refused. A NullValue may be anything.
func (w *walk) checkEnum(at *field.Path, v any, d protoreflect.EnumDescriptor) {
	if d.FullName() == "google.protobuf.NullValue" {
		return
	}
	names := make([]string, d.Values().Len())
	for i := range names {
		names[i] = string(d.Values().Get(i).Name())
	}
	switch v := v.(type) {
	case string:
		if !slices.Contains(names, v) {
			w.errorf(at, "unknown value %q, must be one of %s", v, strings.Join(names, ", "))
		}
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 32)
		if err != nil || d.Values().ByNumber(protoreflect.EnumNumber(n)) == nil {
			w.errorf(at, "unknown value %s, must be one of %s", v, strings.Join(names, ", "))
		}
	default:
		w.errorf(at, "must be one of %s, found %s", strings.Join(names, ", "), describeValue(v))
	}
}

// integerFault returns why v is not an integer in the range of the kind, or "" if it is valid. v
// may be in quotes, like 64-bit integers in protobuf's JSON, or have a zero fraction or an
// exponent.
func integerFault(v any, kind protoreflect.Kind) string {
	text, ok := numberText(v)
	if !ok {
		return "must be a whole number, found " + describeValue(v)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.IsInf(f, 0) {
		return "must be a whole number, found " + describeValue(v)
	}
	bits, signed := 64, true
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		bits = 32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		bits, signed = 32, false
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		signed = false
	}
	low, high := 0.0, math.Ldexp(1, bits)
	if signed {
		low, high = -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)
	}
	if f < low || f >= high {
		return fmt.Sprintf("%s is out of range", text)
	}
	return ""
}

// numberText returns the text of a JSON number or string. It returns false for other types, and for
// strings that are empty or have spaces around the text. It does not check that a string is a
// number.
func numberText(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, v != "" && v == strings.TrimSpace(v)
	default:
		return "", false
	}
}

// isFloat reports whether text is a number for strconv.ParseFloat, which covers the numbers that
// protobuf's JSON accepts, or NaN, Infinity or -Infinity.
func isFloat(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || text == "NaN" || text == "Infinity" || text == "-Infinity"
}

// isBase64 reports whether text is base64 in the standard or the URL alphabet, with or without
// padding.
func isBase64(text string) bool {
	text = strings.TrimRight(text, "=")
	if _, err := base64.RawStdEncoding.DecodeString(text); err == nil {
		return true
	}
	_, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil
}

// mapKeyFault returns why key is not valid for a map with keys of this type, or "" if it is valid.
// Numbers must be whole and in the range of the type.
func mapKeyFault(key string, fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return ""
	case protoreflect.BoolKind:
		if key != "true" && key != "false" {
			return fmt.Sprintf("key %q must be true or false", key)
		}
		return ""
	default:
		if integerFault(json.Number(key), fd.Kind()) != "" {
			return fmt.Sprintf("key %q must be a whole number in range", key)
		}
		return ""
	}
}

// describeValue returns a description of a JSON value for error messages. A string is quoted and
// cut to 60 characters; lists and objects are only named.
func describeValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %.60q", v)
	case json.Number:
		return "the number " + v.String()
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// quoteHint returns the hint to write a number or bool in quotes, and "" for other values. Without
// quotes, version: 1 or enabled: yes is no string in YAML.
func quoteHint(v any) string {
	switch v.(type) {
	case json.Number, bool:
		return " (write it in quotes)"
	default:
		return ""
	}
}
