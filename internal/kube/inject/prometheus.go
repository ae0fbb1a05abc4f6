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

// scrapeVariable passes the application's scrape settings to the agent, which serves its metrics
// with the proxy's.
const scrapeVariable = "ISTIO_PROMETHEUS_ANNOTATIONS"

// scrape is the value of that variable. Port and Path repeat the first target's, for agents without
// support for targets.
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

// mergeMetrics makes Prometheus scrape the agent: it replaces the pod's scrape annotations by those
// for the agent, and passes the pod's own, if there are any and the pod has a proxy container, to
// the agent in scrapeVariable. It does nothing if merging is disabled, the pod opts out of
// scraping, or its port is already the agent's. For invalid annotations it returns an error and
// leaves the pod unchanged.
func mergeMetrics(pod *corev1.Pod, m *meshconfig.MeshConfig, statusPort string) error {
	if !wantsScraping(pod.Annotations) || !mergesMetrics(m, pod.Annotations) {
		return nil
	}
	if port, ok := prometheusPort(pod.Annotations); ok && port == statusPort {
		return nil // already set by an earlier injection or the user
	}
	s, err := parseScrape(pod.Annotations, statusPort)
	if err != nil {
		return err
	}
	if proxy := findInPod(pod, proxyContainer); proxy != nil &&
		(s.Scrape != "" || s.Path != "" || s.Port != "" || len(s.Targets) > 0) {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		proxy.Env = append(proxy.Env, corev1.EnvVar{Name: scrapeVariable, Value: string(text)})
	}
	// Prometheus accepts any spelling of the names, so all must be removed.
	removePrometheusAnnotations(pod.Annotations)
	setAnnotation(pod, "prometheus.io/port", statusPort)
	setAnnotation(pod, "prometheus.io/path", "/stats/prometheus")
	setAnnotation(pod, "prometheus.io/scrape", "true")
	return nil
}

// setSecurePortAnnotation sets prometheus.istio.io/secure-port to the mTLS port of the merged
// metrics, from the proxy's variable ENVOY_SECURE_MERGED_METRICS_PORT. It does nothing if the
// variable is missing, empty or 0, or the user has set the annotation.
func setSecurePortAnnotation(pod *corev1.Pod) {
	const name = "prometheus.istio.io/secure-port"
	proxy := findInPod(pod, proxyContainer)
	if _, exists := prometheusAnnotation(pod.Annotations, "prometheus_istio_io_secure_port"); exists || proxy == nil {
		return
	}
	for _, e := range proxy.Env {
		if e.Name == "ENVOY_SECURE_MERGED_METRICS_PORT" && e.Value != "" && e.Value != "0" {
			setAnnotation(pod, name, e.Value)
			return
		}
	}
}

// mergesMetrics reports whether metrics are merged, by the annotation, or else the mesh
// configuration (default true). A malformed annotation does not count.
func mergesMetrics(m *meshconfig.MeshConfig, annotations map[string]string) bool {
	if on, err := strconv.ParseBool(annotations[annotation.PrometheusMergeMetrics.Name]); err == nil {
		return on
	}
	if on := m.GetEnablePrometheusMerge(); on != nil {
		return on.GetValue()
	}
	return true
}

// wantsScraping reports whether the pod should be scraped. It returns true without the annotation,
// or if its value is invalid, because the proxy has metrics.
func wantsScraping(annotations map[string]string) bool {
	v, _ := prometheusAnnotation(annotations, "prometheus_io_scrape")
	on, err := strconv.ParseBool(v)
	return on || err != nil
}

// prometheusAnnotation returns the value of the first annotation, sorted by name, with this
// Prometheus label name (sanitizeLabel). It returns false if there is none.
func prometheusAnnotation(annotations map[string]string, name string) (string, bool) {
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		if sanitizeLabel(k) == name {
			return annotations[k], true
		}
	}
	return "", false
}

func prometheusPort(annotations map[string]string) (string, bool) {
	return prometheusAnnotation(annotations, "prometheus_io_port")
}

// sanitizeLabel returns the Prometheus label name of an annotation. Each character other than ASCII
// letters, digits and "_" becomes an underscore. A digit at the beginning stays.
func sanitizeLabel(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// removePrometheusAnnotations deletes the annotations for port, path, scrape and scrape-targets, in
// any spelling that Prometheus accepts.
func removePrometheusAnnotations(annotations map[string]string) {
	maps.DeleteFunc(annotations, func(k, _ string) bool {
		return slices.Contains([]string{
			"prometheus_io_path", "prometheus_io_port", "prometheus_io_scrape", "prometheus_istio_io_scrape_targets",
		}, sanitizeLabel(k))
	})
}

// parseScrape returns what the application's scrape annotations request. Targets take precedence
// over port and path. It returns an error if a target has no port, or a port is invalid or reserved
// for the agent or proxy (checkScrapePort).
func parseScrape(annotations map[string]string, statusPort string) (scrape, error) {
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
		if s.Targets, err = parseTargets(v); err != nil {
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

// parseTargets returns the targets in a list such as "8080:/metrics,9090", nil for an empty one.
// The default path is /metrics. It returns an error for an entry without a port.
func parseTargets(text string) ([]scrapeTarget, error) {
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

// checkScrapePort returns an error if text is not a port from 1 to 65535, is statusPort, or is one
// of the ports that proxy and agent reserve.
func checkScrapePort(text, statusPort string) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q: want a port, 1 to 65535", text)
	}
	reserved := map[uint64]string{
		15000: "the proxy's admin interface",
		15001: "the capture of outbound traffic",
		15004: "the agent's debug interface",
		15006: "the capture of inbound traffic",
		15008: "tunnels",
		15020: "the agent itself",
		15021: "the proxy's health",
		15053: "the agent's DNS",
		15090: "the proxy's own metrics",
	}
	if use, ok := reserved[port]; ok {
		return fmt.Errorf("port %d is reserved for %s", port, use)
	}
	if strconv.FormatUint(port, 10) == statusPort {
		return errors.New("port " + statusPort + " is reserved for the agent")
	}
	return nil
}
