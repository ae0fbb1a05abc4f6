package explain

import (
	"slices"
	"strings"
	"testing"
)

// TestFindResponseFlags selects flags by a field of access logs, by a status, and rejects others.
func TestFindResponseFlags(t *testing.T) {
	for text, want := range map[string]string{
		"503,UF": "UF", "UF,URX": "UF URX", "503 uf": "UF", "NoRouteFound": "NR", "404": "NR", "504": "DT SI UMSDR UT",
	} {
		list, err := FindResponseFlags(text)
		var got []string
		for _, f := range list {
			got = append(got, f.Flag)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v (%v), want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"503,XX": `response flag "XX" is unknown`, "200": "the application may have answered", "": "has no response flag"} {
		if _, err := FindResponseFlags(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestResponseFlagsAreComplete finds each flag that endings have, and requires a meaning and a hint of each flag.
func TestResponseFlagsAreComplete(t *testing.T) {
	names := flagNames()
	for _, f := range []string{
		flagNoRoute, flagNoCluster, flagNoHealthyHost, flagDelayInjected, flagFaultInjected, flagExtAuthzRefused, flagProtocolError,
	} {
		if !slices.Contains(names, f) {
			t.Errorf("flag %s has no description", f)
		}
	}
	if len(slices.Compact(names)) != len(ResponseFlags()) {
		t.Errorf("a flag has two descriptions: %v", names)
	}
	for _, f := range ResponseFlags() {
		if f.Name == "" || f.Meaning == "" || len(f.Hints) == 0 {
			t.Errorf("%+v is incomplete", f)
		}
	}
}
