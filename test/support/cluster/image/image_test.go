package image

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	m := Map{{Match: "proxyv2:*-debug", User: 1}, {Match: "proxyv2:*", User: 2}, {Match: "registry.example/istio/pilot:*", User: 3}, {Match: "pause", User: 4}}
	for reference, want := range map[string]int64{
		"proxyv2:1.2-debug":                  1,
		"proxyv2:1.2":                        2,
		"registry.example/istio/proxyv2:1.2": 2,
		"registry.example/istio/pilot:1.2":   3,
		"pilot:1.2":                          0,
		"example.com:5000/other/pause":       4,
		"example.com:5000/other/pause:1":     0,
	} {
		got, err := m.Find(reference)
		switch {
		case want == 0 && err == nil:
			t.Errorf("%s is %v, want none", reference, got)
		case want != 0 && (err != nil || got.User != want):
			t.Errorf("%s is %v (%v), want the image of user %d", reference, got, err, want)
		}
	}
}

func TestWriteAndRead(t *testing.T) {
	m := Map{{Match: "a:*", Entrypoint: []string{"/a"}, Files: map[string]string{"/a": "/bin/a"}, Env: map[string]string{"K": "v"}, User: 7}}
	file := filepath.Join(t.TempDir(), "images.yaml")
	if err := m.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Error(diff)
	}
}
