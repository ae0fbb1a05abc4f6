package mesh

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestNameTable(t *testing.T) {
	table := NameTable{
		"reviews.default.svc.cluster.local": {
			IPs: []string{"10.96.0.1", "fd00::1"}, Registry: Kubernetes, ShortName: "reviews", Namespace: "default",
		},
		"*.example.com": {IPs: []string{"240.240.0.1"}, Registry: External},
		"empty":         {},
	}
	got, err := DecodeNameTable(table.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// By hand, from the message's definition.
	first := NameTable{"a": {IPs: []string{"1.2.3.4"}, Registry: "K", ShortName: "s", Namespace: "n"}}.Encode()
	if want := "\n\x17\n\x01a\x12\x12\n\x071.2.3.4\x12\x01K\x1a\x01s\"\x01n"; string(first) != want {
		t.Errorf("encoded as %q, want %q", first, want)
	}
}

func TestDecodeNameTable(t *testing.T) {
	line := AppendName(nil, "a", NameEntry{IPs: []string{"1.2.3.4"}})
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 7)
	for _, c := range []struct {
		name string
		in   []byte
		want NameTable // nil: an error
	}{
		{"nothing", nil, NameTable{}},
		{"unknown fields", append(append(appendText(nil, 8, "x"), unknown...), line...), NameTable{"a": {IPs: []string{"1.2.3.4"}}}},
		{"twice", append(AppendName(nil, "a", NameEntry{}), line...), NameTable{"a": {IPs: []string{"1.2.3.4"}}}},
		{"cut off", line[:len(line)-1], nil},
		{"cut off in a field that is not known", append(unknown[:1:1], 0xff), nil},
		{"no tag", []byte{0xff}, nil},
		{"a host that is not text", AppendName(nil, "\xff", NameEntry{}), nil},
		{"an address that is not text", AppendName(nil, "a", NameEntry{IPs: []string{"\xff"}}), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeNameTable(c.in)
			if (err != nil) != (c.want == nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// FuzzDecodeNameTable: what can be read has one canonical encoding, which reads as the same.
func FuzzDecodeNameTable(f *testing.F) {
	f.Add(NameTable{"a": {IPs: []string{"1.2.3.4", "::1"}, Registry: Kubernetes, ShortName: "a", Namespace: "b"}, "*.b": {}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := DecodeNameTable(b)
		if err != nil {
			return
		}
		again, err := DecodeNameTable(table.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(table, again); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}
