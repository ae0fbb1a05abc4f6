package config

import (
	"strings"
	"testing"
)

func TestConditionFault(t *testing.T) {
	for _, good := range []string{
		"response.code >= 400", "connection.mtls && request.url_path.contains('v1beta3')",
		`!has(request.useragent) || !(request.useragent.startsWith("Amazon-Route53-Health-Check-Service"))`,
		"request.headers['x'] == 'a'", "destination.port == 80", "xds.node.metadata['NAME'] != ''",
		`re.extract(request.path, '^/(.*)$', '\\1') == 'x'`, "request.time < timestamp('2030-01-01T00:00:00Z')", "true",
		"request.path in ['/a', '/b']", "size(request.path) > 3 && request.path.matches('a+')",
	} {
		if fault := conditionFault(good); fault != "" {
			t.Errorf("%s: %s", good, fault)
		}
	}
	for bad, want := range map[string]string{
		"":                                "is not an expression",
		"response.code >=":                "at column 17",
		"'text'":                          "is of type string",
		"unknown.code == 1":               "undeclared reference to 'unknown'",
		"node.metadata['A'] == 'b'":       "xds.node",
		"foo(request.path)":               "undeclared reference to 'foo'",
		"request.path.replace('a', 'b')":  "undeclared reference to 'replace'",
		"request.headers.all(k, k == '')": "each element",
		"string(request.size) == '1'":     "does not turn values into strings",
		"request.path.matches('(')":       "regular expression",
		"request.path == 'a' &&& true":    "is not an expression",
		strings.Repeat("x", 5000):         "at most 4096",
		"upstream_peer.labels['a'] == ''": "certificate",
	} {
		if fault := conditionFault(bad); !strings.Contains(fault, want) || fault == "" {
			t.Errorf("%.40s: %q, want %q", bad, fault, want)
		}
	}
}

func TestTagExpression(t *testing.T) {
	for value, want := range map[string]string{
		"request.host": "request.host", "string(destination.port)": "destination.port", "'%'": "'%'",
		"string(request.size + 1)": "request.size + 1", "(request.size) % 2": "(request.size) % 2", `"a" + request.host`: `"a" + request.host`,
	} {
		if got, fault := TagExpression(value); got != want || fault != "" {
			t.Errorf("%s: %q, %s; want %q", value, got, fault, want)
		}
	}
	for value, want := range map[string]string{
		"(request.size)%2": "write a space", "string(string(1))": "does not turn", "downstream_peer.app": "connection.uri_san", "": "is not an expression",
	} {
		if got, fault := TagExpression(value); !strings.Contains(fault, want) {
			t.Errorf("%s: %q, %q; want %q", value, got, fault, want)
		}
	}
}
