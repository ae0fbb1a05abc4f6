package bootstrap

import "testing"

// TestRuntimeValues: every runtime value can be written as JSON, with the type of its text.
func TestRuntimeValues(t *testing.T) {
	for text, want := range map[string]string{
		"true": "true", "false": "false", "True": `"True"`, "12.5": "12.5", "-3": "-3", "1e3": "1000", "0x10": `"0x10"`,
		"1e999": `"1e999"`, "inf": `"inf"`, "-Infinity": `"-Infinity"`, "nan": `"nan"`, "50%": `"50%"`,
	} {
		if got, err := runtimeValue(text).MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
