package patch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	xdsv3 "github.com/cncf/xds/go/xds/type/v3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/translate/pgv"
)

// pack returns m in an Any, with deterministic encoding. It returns an error if m cannot be
// encoded.
func pack(m proto.Message) (*anypb.Any, error) {
	a := new(anypb.Any)
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("pack %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return a, nil
}

// mergeTyped returns dst with src merged into the packed message; lists are replaced if
// replaceLists is set, else appended to. Both must have the same type; a TypedStruct in src that
// names the type of dst is converted to it first. It returns an error for different types, and if a
// message cannot be decoded. dst is not modified.
func mergeTyped(dst, src *anypb.Any, replaceLists bool) (*anypb.Any, error) {
	to, err := dst.UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("the existing value cannot be decoded: %w", stableError(err))
	}
	from, err := src.UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("the value cannot be read: %w", stableError(err))
	}
	if t, ok := from.(typedStruct); ok && t.GetTypeUrl() == dst.GetTypeUrl() {
		if from, err = unwrap(t, to); err != nil {
			return nil, err
		}
	}
	if to.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
		return nil, fmt.Errorf("a %s cannot be merged into a %s", shortType(src), shortType(dst))
	}
	merge(to, from, replaceLists)
	return pack(to)
}

// typedStruct is a message that contains another one as JSON with its type, for types that are not
// linked into the control plane.
type typedStruct interface {
	proto.Message
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

var (
	_ typedStruct = (*xdsv3.TypedStruct)(nil)
	_ typedStruct = (*udpav1.TypedStruct)(nil)
)

// unwrap converts the JSON in a TypedStruct to a message of the same type as like. Unknown fields
// are ignored; values that do not fit are an error.
func unwrap(t typedStruct, like proto.Message) (proto.Message, error) {
	m := like.ProtoReflect().New().Interface()
	js, err := t.GetValue().MarshalJSON()
	if err != nil {
		return nil, err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(js, m); err != nil {
		return nil, stableError(err)
	}
	return m, nil
}

// resolveTyped returns the message that a TypedStruct contains, if its type is known and it can be
// parsed. It returns any other message unchanged.
func resolveTyped(m proto.Message) proto.Message {
	t, ok := m.(typedStruct)
	if !ok {
		return m
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(t.GetTypeUrl())
	if err != nil {
		return m
	}
	inside, err := unwrap(t, known.New().Interface())
	if err != nil {
		return m
	}
	return inside
}

// shortType returns the name of the packed type without its package.
func shortType(a *anypb.Any) string {
	return string(a.MessageName().Name())
}

// check returns why Envoy would refuse a message, by the validation rules (protoc-gen-validate) of
// its type and of all messages packed inside, or nil.
func check(m proto.Message) error {
	if err := pgv.Validate(m); err != nil {
		return stableError(err)
	}
	return checkPacked(m.ProtoReflect())
}

// checkPacked validates the messages that are packed in m and in its parts, and returns the first
// error. If m is an Any, it validates its content (check), and a TypedStruct of a known type as
// that type. A type that is not linked in is an error; an empty Any is valid here.
func checkPacked(m protoreflect.Message) error {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if a.GetTypeUrl() == "" && len(a.GetValue()) == 0 {
			return nil // The rules of the message that contains it decide whether it may be empty.
		}
		inside, err := a.UnmarshalNew()
		if err != nil {
			return fmt.Errorf("%s: %w", a.GetTypeUrl(), stableError(err))
		}
		return check(resolveTyped(inside))
	}
	var found error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			found = checkEntries(f, v.Map())
		case f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && found == nil; i++ {
				found = checkPacked(v.List().Get(i).Message())
			}
		default:
			found = checkPacked(v.Message())
		}
		return found == nil
	})
	return found
}

// checkEntries validates the messages that are packed in the values of a map, in the order of their
// keys, so that the error is deterministic. It returns the first error.
func checkEntries(f protoreflect.FieldDescriptor, entries protoreflect.Map) error {
	if f.MapValue().Message() == nil {
		return nil
	}
	var keys []protoreflect.MapKey
	entries.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	for _, k := range keys {
		if err := checkPacked(entries.Get(k).Message()); err != nil {
			return err
		}
	}
	return nil
}

// stableError returns an error of the protobuf library with a stable text. The library varies its
// spaces from build to build on purpose, and starts with a position in generated JSON.
func stableError(err error) error {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(text, "proto: ")
	if rest, ok := strings.CutPrefix(text, "(line "); ok {
		if _, after, ok := strings.Cut(rest, "): "); ok {
			text = after
		}
	}
	return errors.New(text)
}
