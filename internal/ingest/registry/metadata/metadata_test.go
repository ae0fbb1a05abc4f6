package metadata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse(map[string]string{
		"protocol": "http2", "service-port": "8080", "service-account": "web", "network": "n1", "region": "r", "zone": "z",
		"weight": "70000", "version": "v1", "not a label": "x", "text": "not a value",
	})
	want := Instance{
		Protocol: "HTTP2", ServicePort: 8080, ServiceAccount: "web", Network: "n1", Region: "r", Zone: "z",
		Weight: 65535, WeightSet: true, Labels: map[string]string{"version": "v1"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, difference:\n%s", err, diff)
	}
	got, err = Parse(map[string]string{"protocol": "smoke", "service-port": "0", "weight": "-1"})
	const text = "metadata.protocol: \"smoke\" is not a protocol\nmetadata.service-port: \"0\" is not a port number\n" +
		"metadata.weight: \"-1\" is not a number"
	if diff := cmp.Diff(Instance{}, got); diff != "" || err == nil || err.Error() != text {
		t.Errorf("error %v, difference:\n%s", err, diff)
	}
}

func TestLocality(t *testing.T) {
	for want, i := range map[string]Instance{
		"":                 {},
		"eu":               {Region: "eu"},
		"default/a":        {Zone: "a"},
		"eu/a/rack-1":      {Region: "eu", Zone: "a", SubZone: "rack-1"},
		"default/a/rack-1": {Zone: "a", SubZone: "rack-1"},
	} {
		if got := i.Locality(); got != want {
			t.Errorf("locality of %+v is %q, want %q", i, got, want)
		}
	}
}
