package options

import "testing"

// TestKeyCache checks where keys are cached without an API server.
func TestKeyCache(t *testing.T) {
	o := Defaults()
	o.Authority.Dir = ""
	if c := o.KeyCache(nil); c != nil {
		t.Errorf("without a directory, keys are cached in %s", c)
	}
	o.Authority.Dir = "/ca"
	if c := o.KeyCache(nil); c == nil || c.String() != "file /ca/meshpilot-issuer-keys.json" {
		t.Errorf("keys are cached in %v", c)
	}
}
