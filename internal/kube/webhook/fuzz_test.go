package webhook

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzTooMany: JSON that passes exceedsValueLimit has at most that many values when decoded
// (differential), so that a small body cannot use much memory.
func FuzzTooMany(f *testing.F) {
	for _, s := range []string{`{}`, `[[[[[[[[`, `{"a":[1,2,3],"b":{"c":null}}`, `"[,{\"[,{"`, `[{},{},{}]`, "\"\\\\\",[", `[1,1,1,1,1,1,1,1,1]`} {
		f.Add([]byte(s), 4)
	}
	f.Fuzz(func(t *testing.T, body []byte, limit int) {
		if limit < 0 || limit > 1000 || exceedsValueLimit(body, limit) || !json.Valid(body) {
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		values := 0
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			if end, is := token.(json.Delim); is && (end == '}' || end == ']') {
				continue
			}
			values++ // keys too
		}
		if values > 2*limit+2 {
			t.Errorf("%q has %d keys and values, and passes a limit of %d", body, values, limit)
		}
	})
}
