package pgv_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	_ "github.com/meshpilot/meshpilot/internal/translate/patch" // links all types of Envoy's API
	"github.com/meshpilot/meshpilot/internal/translate/pgv"
)

// generated is implemented by messages for which protoc-gen-validate has generated code.
type generated interface {
	proto.Message
	ValidateAll() error
}

// validatedTypes returns all message types with generated validation, in the order of their names.
func validatedTypes(t *testing.T) []protoreflect.MessageType {
	t.Helper()
	var types []protoreflect.MessageType
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		if _, ok := m.Zero().Interface().(generated); ok {
			types = append(types, m)
		}
		return true
	})
	if len(types) < 1000 {
		t.Fatalf("only %d message types with rules are linked: the test is not effective", len(types))
	}
	slices.SortFunc(types, func(a, b protoreflect.MessageType) int {
		return strings.Compare(string(a.Descriptor().FullName()), string(b.Descriptor().FullName()))
	})
	return types
}

// text returns an error's text, without the differences that the protobuf library makes on purpose.
func text(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\u00a0", " ")
}

// TestAgreesWithGeneratedCode compares the errors for random messages of every type with those of
// the generated ValidateAll.
func TestAgreesWithGeneratedCode(t *testing.T) {
	random := &randomMessages{Rand: rand.New(rand.NewPCG(1, 2)), numbers: numbersInRules(t)}
	reason := regexp.MustCompile(`: (value|embedded|repeated|type URL)[^;|"]*`)
	digits := regexp.MustCompile(`[0-9]+`)
	valid, reasons, differences := 0, map[string]int{}, 0
	for _, typ := range validatedTypes(t) {
		for range 12 {
			m, ok := random.message(typ.New(), 3).Interface().(generated)
			if !ok {
				t.Fatalf("%s has no generated validation", typ.Descriptor().FullName())
			}
			want, got := text(m.ValidateAll()), text(pgv.Validate(m))
			if want == "" {
				valid++
			}
			for _, r := range reason.FindAllString(want, -1) {
				reasons[digits.ReplaceAllString(r, "N")]++
			}
			if got != want && differences < 10 {
				differences++
				t.Errorf("%s %v\n got %s\nwant %s", typ.Descriptor().FullName(), m, got, want)
			}
		}
	}
	t.Logf("%d valid messages, violations of %d kinds of rules", valid, len(reasons))
	if valid < 1000 || len(reasons) < 30 {
		t.Errorf("%d valid messages and violations of %d kinds of rules: the test is not effective", valid, len(reasons))
	}
}

// TestAllRulesAreKnown checks that every rule of Envoy's API is implemented.
func TestAllRulesAreKnown(t *testing.T) {
	for _, typ := range validatedTypes(t) {
		for _, rule := range pgv.UnknownRules(typ.Descriptor()) {
			t.Errorf("not implemented: %s", rule)
		}
	}
}

// TestValidateNamesFields shows the texts that users of EnvoyFilters see.
func TestValidateNamesFields(t *testing.T) {
	m := &listenerv3.Listener{
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 65536},
		}}},
		ListenerFiltersTimeout: durationpb.New(1),
	}
	want := "invalid Listener.Address: embedded message failed validation | caused by: " +
		"invalid Address.SocketAddress: embedded message failed validation | caused by: " +
		"invalid SocketAddress.Address: value length must be at least 1 runes; " +
		"invalid SocketAddress.PortValue: value must be less than or equal to 65535"
	if got := text(pgv.Validate(m)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func BenchmarkValidate(b *testing.B) {
	m := &listenerv3.Listener{Name: "x", FilterChains: []*listenerv3.FilterChain{
		{Filters: []*listenerv3.Filter{{Name: "a"}, {Name: "b"}}},
	}}
	b.Run("rules", func(b *testing.B) {
		for b.Loop() {
			_ = pgv.Validate(m)
		}
	})
	b.Run("generated", func(b *testing.B) {
		for b.Loop() {
			_ = m.ValidateAll()
		}
	})
}
