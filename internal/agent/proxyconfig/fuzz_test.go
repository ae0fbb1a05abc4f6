package proxyconfig

import "testing"

// FuzzEffective tests that a merge of arbitrary layers that succeeds can be encoded and parsed
// again without a change.
func FuzzEffective(f *testing.F) {
	f.Add("defaultConfig: {concurrency: 2, proxyMetadata: {A: b}}", "tracing: {sampling: 1.5}\nterminationDrainDuration: 3s")
	f.Add("default_config: null", "proxyStatsMatcher: {inclusionRegexps: ['(']}")
	f.Add("x: &a [*a]", "a: {b: {c: [[[[")
	f.Add("{}", "binaryPath: \"a\\nb\"\nstatusPort: -1")
	f.Fuzz(func(t *testing.T, meshYAML, own string) {
		layer, err := MeshConfigLayer("mesh", meshYAML)
		if err != nil {
			return
		}
		c, err := MergeLayers(layer, Layer{Name: "own", YAML: own})
		if err != nil || Validate(c) != nil {
			return
		}
		text, err := EncodeYAML(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := MergeLayers(Layer{Name: "again", YAML: text})
		if err != nil {
			t.Fatalf("%s\nis not read: %v", text, err)
		}
		if second, err := EncodeYAML(again); err != nil || second != text {
			t.Errorf("%s\nis read as\n%s%v", text, second, err)
		}
	})
}
