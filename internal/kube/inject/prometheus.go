package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"istio.io/api/annotation"

	corev1 "k8s.io/api/core/v1"
)

// scrapeVariable tells the agent where the application's own metrics are, to serve them with the proxy's.
const scrapeVariable = "ISTIO_PROMETHEUS_ANNOTATIONS"

// scrape is the value of that variable. Port and Path are also the first target's, for agents that know of no targets.
type scrape struct {
	Scrape  string         `json:"scrape"`
	Path    string         `json:"path"`
	Port    string         `json:"port"`
	Targets []scrapeTarget `json:"targets,omitempty"`
}

type scrapeTarget struct {
	Port string `json:"port"`
	Path string `json:"path"`
}

// mergeMetrics has Prometheus scrape the agent, which scrapes the application as the pod's annotations said so far.
func mergeMetrics(pod *corev1.Pod, m *meshconfig.MeshConfig, statusPort string) error {
	if !scraped(pod.Annotations) || !merges(m, pod.Annotations) {
		return nil
	}
	if port, ok := prometheusPort(pod.Annotations); ok && port == statusPort {
		return nil // done before, or by the user
	}
	s, err := readScrape(pod.Annotations, statusPort)
	if err != nil {
		return err
	}
	if proxy := findAny(pod, proxyContainer); proxy != nil && (s.Scrape != "" || s.Path != "" || s.Port != "" || len(s.Targets) > 0) {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		proxy.Env = append(proxy.Env, corev1.EnvVar{Name: scrapeVariable, Value: string(text)})
	}
	// Prometheus takes any of the spellings of a name, so none of them may stay.
	clearPrometheus(pod.Annotations)
	annotate(pod, "prometheus.io/port", statusPort)
	annotate(pod, "prometheus.io/path", "/stats/prometheus")
	annotate(pod, "prometheus.io/scrape", "true")
	return nil
}

// announceSecurePort says on which port the merged metrics are served with mTLS, if the proxy is told to.
func announceSecurePort(pod *corev1.Pod) {
	const name = "prometheus.istio.io/secure-port"
	proxy := findAny(pod, proxyContainer)
	if _, said := prometheusAnnotation(pod.Annotations, "prometheus_istio_io_secure_port"); said || proxy == nil {
		return
	}
	for _, e := range proxy.Env {
		if e.Name == "ENVOY_SECURE_MERGED_METRICS_PORT" && e.Value != "" && e.Value != "0" {
			annotate(pod, name, e.Value)
			return
		}
	}
}

// merges says whether metrics are to be merged: by the annotation, by the mesh, or else yes.
func merges(m *meshconfig.MeshConfig, annotations map[string]string) bool {
	if on, err := strconv.ParseBool(annotations[annotation.PrometheusMergeMetrics.Name]); err == nil {
		return on
	}
	if on := m.GetEnablePrometheusMerge(); on != nil {
		return on.GetValue()
	}
	return true
}

// scraped says whether the pod wants to be scraped at all. One that does not say so does: the proxy has metrics.
func scraped(annotations map[string]string) bool {
	v, _ := prometheusAnnotation(annotations, "prometheus_io_scrape")
	on, err := strconv.ParseBool(v)
	return on || err != nil
}

// prometheusAnnotation finds an annotation by its name as Prometheus has it, in which everything but letters, digits and
// underscores is an underscore.
func prometheusAnnotation(annotations map[string]string, name string) (string, bool) {
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		if asLabel(k) == name {
			return annotations[k], true
		}
	}
	return "", false
}

func prometheusPort(annotations map[string]string) (string, bool) {
	return prometheusAnnotation(annotations, "prometheus_io_port")
}

func asLabel(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

func clearPrometheus(annotations map[string]string) {
	maps.DeleteFunc(annotations, func(k, _ string) bool {
		return slices.Contains([]string{
			"prometheus_io_path", "prometheus_io_port", "prometheus_io_scrape", "prometheus_istio_io_scrape_targets",
		}, asLabel(k))
	})
}

// readScrape reads what the annotations say about the application's metrics. They must not be the agent's own, or anything
// else of the proxy's.
func readScrape(annotations map[string]string, statusPort string) (scrape, error) {
	s := scrape{}
	s.Scrape, _ = prometheusAnnotation(annotations, "prometheus_io_scrape")
	s.Path, _ = prometheusAnnotation(annotations, "prometheus_io_path")
	s.Port, _ = prometheusPort(annotations)
	ports := []string{}
	if s.Port != "" {
		ports = append(ports, s.Port)
	}
	const targets = "prometheus.istio.io/scrape-targets"
	if v, ok := prometheusAnnotation(annotations, "prometheus_istio_io_scrape_targets"); ok {
		var err error
		if s.Targets, err = readTargets(v); err != nil {
			return s, fmt.Errorf("annotation %s: %w", targets, err)
		}
	}
	name := "prometheus.io/port"
	if len(s.Targets) > 0 {
		name, ports = targets, nil
		s.Port, s.Path = s.Targets[0].Port, s.Targets[0].Path
		for _, t := range s.Targets {
			ports = append(ports, t.Port)
		}
	}
	for _, p := range ports {
		if err := checkScrapePort(p, statusPort); err != nil {
			return s, fmt.Errorf("annotation %s: %w", name, err)
		}
	}
	return s, nil
}

// readTargets reads a list like "8080:/metrics,9090".
func readTargets(text string) ([]scrapeTarget, error) {
	var list []scrapeTarget
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		port, path, _ := strings.Cut(entry, ":")
		t := scrapeTarget{Port: strings.TrimSpace(port), Path: strings.TrimSpace(path)}
		if t.Port == "" {
			return nil, fmt.Errorf("%q has no port", entry)
		}
		if t.Path == "" {
			t.Path = "/metrics"
		}
		list = append(list, t)
	}
	return list, nil
}

func checkScrapePort(text, statusPort string) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q: want a port, 1 to 65535", text)
	}
	reserved := map[uint64]string{
		15000: "the proxy's admin interface", 15001: "the capture of outbound traffic", 15004: "the agent's debug interface",
		15006: "the capture of inbound traffic", 15008: "tunnels", 15020: "the agent itself", 15021: "the proxy's health",
		15053: "the agent's DNS", 15090: "the proxy's own metrics",
	}
	if use, ok := reserved[port]; ok {
		return fmt.Errorf("port %d is for %s", port, use)
	}
	if strconv.FormatUint(port, 10) == statusPort {
		return errors.New("port " + statusPort + " is for the agent itself")
	}
	return nil
}
