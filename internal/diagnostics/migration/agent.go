package migration

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/docs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// proxyConfigAnnotation has a part of ProxyConfig for one pod.
const proxyConfigAnnotation = "metadata.annotations[proxy.istio.io/config]"

// addVariablesOfAgents adds a finding for each variable that the installation sets for proxies and
// that pilot-agent does not read. Harmless variables (isHarmless) and node metadata (ISTIO_META and
// more) are skipped. Pods that a controller created are left out, as their template has the same.
// It returns an error only if the list of known variables cannot be read.
func (r *run) addVariablesOfAgents() error {
	text, err := docs.AgentEnvironment()
	if err != nil {
		return err
	}
	known := namesIn(text)
	add := func(s *subject, path, name string) {
		if known[name] || isHarmless(name) || strings.HasPrefix(name, "ISTIO_META") {
			return
		}
		f := newFinding(s, path)
		f.Level, f.ID, f.Subject = Information, "agent-variable", fmt.Sprintf("environment variable %s of proxies",
			name)
		f.Here, f.Do = "is not read by pilot-agent", "look for a successor in docs/ENVIRONMENT-AGENT.md"
		r.findings = append(r.findings, f)
	}
	for _, s := range r.subjects {
		switch s.kind {
		case "MeshConfig":
			for _, f := range selectFields(s.root, "defaultConfig.proxyMetadata[*]") {
				add(s, f.path, f.key)
			}
		case string(api.ProxyConfig):
			for _, f := range selectFields(s.root, "spec.environmentVariables[*]") {
				add(s, f.path, f.key)
			}
		case string(api.Pod):
			overlay, _ := first(s.root, proxyConfigAnnotation).(string)
			var config any
			if s.isOwnedPod() || yaml.Unmarshal([]byte(overlay), &config) != nil {
				continue
			}
			for _, f := range selectFields(config, "proxyMetadata[*]") {
				add(s, proxyConfigAnnotation, f.key)
			}
		}
	}
	return nil
}

// retiredAgentFlags returns the retired flags of pilot-agent, as arguments without values.
func retiredAgentFlags() []string {
	var list []string
	for _, f := range retired.AgentFlags() {
		list = append(list, "--"+f.Name)
	}
	return list
}
