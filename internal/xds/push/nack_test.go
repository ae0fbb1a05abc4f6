package push

import "testing"

func TestRefusalOfOneResource(t *testing.T) {
	const three = "Error adding/updating listener(s) 0.0.0.0_80: no such file\nvirtualInbound: unknown: type\n10.0.0.1_80: why\n"
	for _, c := range []struct{ message, name, want string }{
		{three, "0.0.0.0_80", "no such file"},
		{three, "virtualInbound", "unknown: type"},
		{three, "10.0.0.1_80", "why"},
		{three, "0.0.0.0_8", three},
		{"Only unique values for domains are permitted", "80", "Only unique values for domains are permitted"},
	} {
		n := Nack{
			Message:   c.message,
			Resources: []Refused{{Name: "0.0.0.0_80"}, {Name: "virtualInbound"}, {Name: "10.0.0.1_80"}},
		}
		if got := n.ReasonFor(c.name); got != c.want {
			t.Errorf("reason for %s = %q, want %q", c.name, got, c.want)
		}
	}
}
