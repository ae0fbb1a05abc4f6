package decode

import "testing"

func TestSuggest(t *testing.T) {
	candidates := []string{"host", "hosts", "route", "perTryTimeout", "retryOn"}
	for written, want := range map[string]string{
		"hots": "host", "Host": "host", "rout": "route", "roote": "route", "perTryTimeot": "perTryTimeout", "pertrytimeout": "perTryTimeout",
		"retry_on": "retryOn", "xyz": "", "": "", "a": "",
	} {
		got := suggestName(written, candidates)
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", written, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.a, test.b, got, test.want)
		}
		if got := editDistance(test.b, test.a); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.b, test.a, got, test.want)
		}
	}
}
