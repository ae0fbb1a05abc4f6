package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

const pemKey = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIHostileHostile\nabc==\n-----END EC PRIVATE KEY-----"

// TestText redacts secrets in the forms of logs and statistics, and keeps other texts.
func TestText(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(pemKey))
	certificate := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----"))
	for _, c := range []struct{ text, want string }{
		{"a\n" + pemKey + "\nb", "a\n[redacted]\nb"},
		{strings.ReplaceAll(pemKey, "\n", `\n`), "[redacted]"},
		{pemKey[:60], "[redacted]"},
		{"key: " + encoded, "key: [redacted]"},
		{"ca: " + certificate, "ca: " + certificate},
		{"sent eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln now", "sent [redacted] now"},
		{"Authorization: Basic dXNlcjpwYXNz", "Authorization: [redacted]"},
		{`{"authorization":"Bearer abcdefgh"}`, `{"authorization":"[redacted]"}`},
		{"Cookie: a=b; c=d\nnext", "Cookie: [redacted]\nnext"},
		{"GET https://user:hunter2@example.com/x", "GET https://[redacted]@example.com/x"},
		{"DB_PASSWORD=hunter2 X=1", "DB_PASSWORD=[redacted] X=1"},
		{`\"clientSecret\":\"hunter2\",\"a\":1`, `\"clientSecret\":\"[redacted]\",\"a\":1`},
		{"api-key: 'hunter2'", "api-key: '[redacted]'"},
		{"?token=hunter2&x=1", "?token=[redacted]&x=1"},
		{"AKIAABCDEFGHIJKLMNOP", "[redacted]"},
		{"ghp_abcdefghijklmnopqrstuvwxyz", "[redacted]"},
		{"secretName: gateway-cert tokenPath: /var/run/x", "secretName: gateway-cert tokenPath: /var/run/x"},
		{"the token of shop has expired", "the token of shop has expired"},
	} {
		if got := Text(c.text); got != c.want {
			t.Errorf("%q:\n got %q\nwant %q", c.text, got, c.want)
		}
		if twice := Text(Text(c.text)); twice != Text(c.text) {
			t.Errorf("redacted twice: %q", twice)
		}
	}
}

// TestJSON redacts secrets that only the structure of a document identifies.
func TestJSON(t *testing.T) {
	got := string(JSON([]byte(`{"items":[
	  {"kind":"Secret","data":{"x":"hunter2"},"stringData":{"y":"hunter2"},"metadata":{"name":"s"}},
	  {"kind":"Pod","spec":{"containers":[{"env":[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"MODE","value":"kept"},{"key":"x-api-key","value":"hunter2"}]}]},
	   "metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2","note":"{\"password\":\"hunter2\",\"a\":\"kept\"}"}}},
	  {"privateKey":{"inlineBytes":"hunter2"},"number":12345678901234567890,"secretName":"kept"}]}`)))
	if strings.Contains(got, "hunter2") || strings.Count(got, "kept") != 3 || !strings.Contains(got, "12345678901234567890") {
		t.Errorf("got %s", got)
	}
	if got := string(JSON([]byte("token=hunter2"))); got != "token=[redacted]" {
		t.Errorf("no JSON: %s", got)
	}
}

// FuzzJSON checks that redacting keeps a document valid, and that a private key behind any text is
// removed.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":"b"}`)
	f.Add(`{"token":{"x":["Bearer abcdefgh"]},"name":"PASSWORD","value":"x://a@b@c"}`)
	f.Add(`["{\"password\":\"x\"}", "-----BEGIN PRIVATE KEY-----"]`)
	f.Fuzz(func(t *testing.T, text string) {
		if json.Valid([]byte(text)) && !json.Valid(JSON([]byte(text))) {
			t.Fatalf("no JSON: %s", JSON([]byte(text)))
		}
		document, err := json.Marshal(map[string]string{"log": text + pemKey})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(JSON(document)); strings.Contains(got, "HostileHostile") {
			t.Errorf("the key is left: %s", got)
		}
	})
}
