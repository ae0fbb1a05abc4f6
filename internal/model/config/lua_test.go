package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// TestLuaAsEnvoyReadsIt: scripts reported as broken are rejected by Envoy, and all others are
// accepted.
func TestLuaAsEnvoyReadsIt(t *testing.T) {
	binary := envoy.RequireBinary(t)
	info, _ := api.Info(api.TrafficExtension)
	for text, broken := range map[string]bool{
		"function envoy_on_request(h) end":                         false,
		"#!/usr/bin/lua\nx = 1":                                    false,
		"goto done ::done::":                                       false,
		"x = {1, 2; a = 3, ['b'] = 4}; y = #x":                     false,
		"x = [==[ a ]] ]==] .. 'b\\10\\\nc' .. \"\\\"\"":           false,
		"x = 3. + .5 + 1e10 + 0xAf - -2 ^ 2 % 3":                   false,
		"f = function(...) return select('#', ...) end; f{}; f'a'": false,
		"--[[ a\nb ]] x = not nil == true --":                      false,
		"do local a <const> = 1 end":                               true,
		"function envoy_on_request(h)":                             true,
		"function envoy_on_request(h) if h end":                    true,
		"x = 'a":                                                   true,
		"x = 1 // 2":                                               true,
		"x += 1":                                                   true,
		"function (h) end":                                         true,
		"return 1; x = 2":                                          true,
		// Not known here, which is no Error.
		"x = {1ULL, 2LL, 3i}": false,
		"x = 0x1p4":           false,
		"x = '\\x41\\z  b'":   false,
		"größe = 1":           false,
	} {
		found := validated(
			t,
			info,
			&extensions.TrafficExtension{
				FilterConfig: &extensions.TrafficExtension_Lua{Lua: &extensions.LuaConfig{InlineCode: text}},
			},
		)
		refused := slices.ContainsFunc(found, func(p config.Problem) bool { return p.Severity == config.Error })
		said := lua(t, binary, text)
		if (said == "") == broken {
			t.Errorf("%q: Envoy's error = %q, reported as broken: %v", text, said, broken)
		}
		if refused != broken {
			t.Errorf("%q: refused %v (%v), want %v", text, refused, found, broken)
		}
	}
}

// lua returns Envoy's error for a script, or "" if Envoy accepts it.
func lua(t *testing.T, binary, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	document := fmt.Sprintf(
		`{"static_resources": {"listeners": [{"name": "l", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}, "filter_chains": [{"filters": [{
		"name": "hcm", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "s", "route_config": {},
		"http_filters": [
			{"name": "lua", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua", "default_source_code": {"inline_string": %s}}},
			{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
		]}}]}]}]}}`,
		quoted,
	)
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "critical", "-c", file).
		CombinedOutput()
	if err == nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
