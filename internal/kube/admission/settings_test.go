package admission

import "testing"

func TestSettingsNamesAnInvalidValue(t *testing.T) {
	for value, valid := range map[string]bool{"": true, "auto": true, "true": true, "false": true, "always": false} {
		if err := (Settings{NativeSidecars: value}).Validate(); (err == nil) != valid {
			t.Errorf("NativeSidecars %q: %v", value, err)
		}
	}
}
