package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// patterns are the forms of secrets. If a pattern has groups, the first one is kept.
type patterns struct {
	whole        []*regexp.Regexp
	kept         []*regexp.Regexp
	encoded      *regexp.Regexp
	assignment   *regexp.Regexp
	secretName   *regexp.Regexp
	harmlessName *regexp.Regexp
}

// newPatterns returns the regular expressions that recognize secrets.
func newPatterns() *patterns {
	const name = `pass(?:word|wd|phrase)|secret|token|credential|api[_-]?key|private[_-]?key|access[_-]?key|authorization|cookie|kubeconfig`
	return &patterns{
		whole: []*regexp.Regexp{
			regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY-----`),
			regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\sA-Za-z0-9+/=\\]*`), // without an end
			regexp.MustCompile(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(\.[A-Za-z0-9_-]*)?`),
			regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`),
			regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}`),
			regexp.MustCompile(`\bxox[abprs]-[A-Za-z0-9-]{10,}`),
		},
		kept: []*regexp.Regexp{
			regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`),
			regexp.MustCompile(`(://)[^/\s"'@]+@`),
			regexp.MustCompile(`(?i)((?:proxy-)?authorization\\?["']?\s*[:=]\s*\\?["']?)[^"'\\\n]+`),
			regexp.MustCompile(`(?i)((?:set-)?cookie\\?["']?\s*[:=]\s*\\?["']?)[^"'\\\n]+`),
		},
		encoded:      regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]*`), // base64 of "-----BEGIN "
		assignment:   regexp.MustCompile(`(?i)([\w.-]*(?:` + name + `)[\w.-]*)(\\?["']?\s*[:=]\s*\\?["']?)([^\s"'\\,;&}\]]+)`),
		secretName:   regexp.MustCompile(`(?i)` + name),
		harmlessName: regexp.MustCompile(`(?i)(name|names|file|path|ref|refs|type|kind|namespace|audience|audiences|mode|policy|seconds|duration|headers?|params?|count|total|expiry)$`),
	}
}

// isSecretName reports whether the values of a field or variable of this name are replaced. It
// returns false for names that contain a word for a secret but end in a harmless word, such as
// tokenPath.
func (p *patterns) isSecretName(name string) bool {
	return p.secretName.MatchString(name) && !p.harmlessName.MatchString(name)
}

// Text returns text with all secrets that are recognized by their form or by the name before them
// replaced by Mark. Certificates are kept.
func Text(text string) string { return newPatterns().text(text) }

// text returns text with its secrets replaced by Mark: matches of the patterns, private keys also
// in base64, passwords in URLs, and values that are assigned to a name of a secret (isSecretName).
// Certificates in base64 are kept.
func (p *patterns) text(text string) string {
	for _, r := range p.whole {
		text = r.ReplaceAllString(text, Mark)
	}
	for _, r := range p.kept {
		text = r.ReplaceAllString(text, "${1}"+Mark)
	}
	text = strings.ReplaceAll(text, "://"+Mark, "://"+Mark+"@")
	text = p.encoded.ReplaceAllStringFunc(text, func(s string) string {
		plain, err := base64.StdEncoding.DecodeString(s)
		if err == nil && !strings.Contains(string(plain), "PRIVATE KEY") {
			return s // certificates
		}
		return Mark
	})
	return p.assignment.ReplaceAllStringFunc(text, func(s string) string {
		m := p.assignment.FindStringSubmatch(s)
		if !p.isSecretName(m[1]) || strings.HasPrefix(m[3], "[redacted") {
			return s
		}
		return m[1] + m[2] + Mark
	})
}

// JSON returns a JSON document, indented, with its secrets replaced by Mark: the texts that Text
// replaces, and the values of fields with the name of a secret. It also replaces the data of
// Kubernetes Secrets, the values of {name, value} and {key, value} with such a name, and kubectl's
// copies of objects. A document that does not begin with JSON is handled as text; text after the
// first JSON value is dropped.
func JSON(document []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return []byte(Text(string(document)))
	}
	b, err := json.MarshalIndent(newPatterns().value(v), "", " ")
	if err != nil {
		return []byte(Mark)
	}
	return b
}

// value returns a JSON value with its secrets replaced. It modifies lists and objects in place.
// Numbers, booleans and null are returned as they are.
func (p *patterns) value(v any) any {
	switch v := v.(type) {
	case string:
		return p.embedded(v)
	case []any:
		for i := range v {
			v[i] = p.value(v[i])
		}
		return v
	case map[string]any:
		return p.object(v)
	default:
		return v
	}
}

// embedded returns a string with its secrets replaced. A string that is a JSON object or list is
// handled as such, and returned as JSON without white space and with sorted fields.
func (p *patterns) embedded(s string) string {
	if t := strings.TrimSpace(s); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		var inner any
		if json.Unmarshal([]byte(t), &inner) == nil {
			if b, err := json.Marshal(p.value(inner)); err == nil {
				return string(b)
			}
		}
	}
	return p.text(s)
}

// object replaces the secrets in the values of a JSON object, which it modifies and returns. The
// data of Secrets, the last applied configuration, and texts with a secret's name (isSecretName)
// are secrets. So are objects with the name of a private key or password.
func (p *patterns) object(m map[string]any) map[string]any {
	kind, _ := m["kind"].(string)
	name, _ := m["name"].(string)
	if key, ok := m["key"].(string); ok { // a header
		name = key
	}
	for k, x := range m {
		_, isText := x.(string)
		_, isObject := x.(map[string]any)
		switch {
		case kind == "Secret" && (k == "data" || k == "stringData"),
			k == "kubectl.kubernetes.io/last-applied-configuration",
			k == "value" && isText && p.isSecretName(name),
			isText && p.isSecretName(k),
			isObject && (k == "privateKey" || k == "private_key" || k == "password"):
			m[k] = Mark
		default:
			m[k] = p.value(x)
		}
	}
	return m
}
