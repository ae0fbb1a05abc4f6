package config

import (
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestPlainTextsAreValid compares isPlain with Kubernetes' validation, for texts of few different
// characters: all that it accepts are valid as each of the forms that are not checked further.
func TestPlainTextsAreValid(t *testing.T) {
	t.Parallel()
	const characters = "ab09-.-._A/"
	plain := 0
	for range 200_000 {
		text := make([]byte, rand.IntN(8))
		for i := range text {
			text[i] = characters[rand.IntN(len(characters))]
		}
		if rand.IntN(20) == 0 {
			text = append(text, strings.Repeat("x", 55+rand.IntN(12))...)
		}
		s := string(text)
		if !isPlain(s) {
			continue
		}
		plain++
		for what, reasons := range map[string][]string{
			"name":        validation.IsDNS1123Subdomain(s),
			"label key":   validation.IsQualifiedName(s),
			"prefix":      validation.IsQualifiedName(s + "/a"),
			"label value": validation.IsValidLabelValue(s),
		} {
			if len(reasons) > 0 {
				t.Fatalf("%q is accepted, and no valid %s: %v", s, what, reasons)
			}
		}
		if !strings.Contains(s, ".") && len(validation.IsDNS1123Label(s)) > 0 {
			t.Fatalf("%q is accepted, and no valid namespace", s)
		}
	}
	if plain < 1000 {
		t.Errorf("only %d texts were accepted", plain)
	}
}

// TestLabelTexts compares isLabelText with Kubernetes' validation of label keys and values, for texts
// of few different characters.
func TestLabelTexts(t *testing.T) {
	t.Parallel()
	const characters = "ab09-.-._A/é"
	for range 200_000 {
		text := make([]byte, 1+rand.IntN(8))
		for i := range text {
			text[i] = characters[rand.IntN(len(characters))]
		}
		if rand.IntN(20) == 0 {
			text = append(text, strings.Repeat("x", 55+rand.IntN(12))...)
		}
		s := string(text)
		if got, want := isLabelText(s), len(validation.IsValidLabelValue(s)) == 0; got != want {
			t.Fatalf("%q is a label value: %t, want %t", s, got, want)
		}
		if isLabelText(s) && len(validation.IsQualifiedName(s)) > 0 {
			t.Fatalf("%q is accepted, and no valid label key", s)
		}
	}
}

func BenchmarkLabelFault(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		if labelFault("security.istio.io/tlsMode", "istio") != "" {
			b.Fatal("refused")
		}
	}
}
