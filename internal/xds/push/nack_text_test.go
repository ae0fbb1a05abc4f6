package push

import "testing"

// TestNackOf checks that each resource of a refusal gets its own part of the message, with all
// lines.
func TestNackOf(t *testing.T) {
	envoy := Nack{
		Message:   "Error adding/updating listener(s) 0.0.0.0_80: first\nsecond line\n10.0.0.1_80: Proto constraint validation failed (X: y)\nlast: z",
		Resources: []Refused{{Name: "0.0.0.0_80"}, {Name: "10.0.0.1_80"}, {Name: "last"}},
	}
	grpc := Nack{
		Message:   "error parsing \"ListenerResource\" response: resource \"a:1\": one;\nmore;\nresource \"b:2\": two",
		Resources: []Refused{{Name: "a:1"}, {Name: "b:2"}},
	}
	other := Nack{Message: "no healthy upstream\nof c"}
	for _, tc := range []struct {
		nack       *Nack
		name, want string
	}{
		{&envoy, "0.0.0.0_80", "first\nsecond line"},
		{&envoy, "10.0.0.1_80", "Proto constraint validation failed (X: y)"},
		{&envoy, "last", "z"},
		{&envoy, "0.0.0.0_8", envoy.Message},
		{&grpc, "a:1", "one;\nmore"},
		{&grpc, "b:2", "two"},
		{&other, "c", other.Message},
	} {
		if got := tc.nack.ReasonFor(tc.name); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
