package spiffe

import (
	"strings"
	"testing"
)

// FuzzParseBundle: of a bundle that is accepted all certificates are authorities, at most so many, and a refusal quotes nothing.
func FuzzParseBundle(f *testing.F) {
	for _, s := range []string{
		`{"keys":[]}`, `{"keys":null}`, `{"keys":[{"use":"x509-svid","x5c":["AA=="]}]}`, `{"keys":[{"use":"jwt-svid"}]}`, `{"keys":[{"use":"x509-svid","x5c":["secretsecretsecret"]}]}`, `[]`,
		`{"keys":[{"use":"x509-svid","x5c":[]},{"use":"x509-svid"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		list, err := ParseBundle(document)
		if err != nil {
			if text := err.Error(); len(document) > 20 && strings.Contains(text, string(document)) || len(text) > 200 {
				t.Errorf("the error is %q", text)
			}
			return
		}
		if len(list) == 0 || len(list) > maxRoots {
			t.Errorf("%d authorities", len(list))
		}
		for _, c := range list {
			if !c.IsCA {
				t.Errorf("%v is no authority", c.Subject)
			}
		}
	})
}
