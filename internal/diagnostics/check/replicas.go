package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// podSelector returns the label selector of the control plane's pods, of one revision if that is
// set.
func (t *Target) podSelector() string {
	if t.Revision != "" {
		return "app=istiod,istio.io/rev=" + t.Revision
	}
	return "app=istiod"
}

// podsReady fails if no pod of the control plane is ready, and warns if some are not. Pods that are
// being deleted do not count. A namespace without such pods is a failure.
func podsReady(ctx context.Context, t *Target) outcome {
	list, err := t.Client.Kubernetes.CoreV1().Pods(t.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: t.podSelector()})
	if err != nil {
		return requestFailed(err)
	}
	var wrong findings
	ready := 0
	for i := range list.Items {
		p := &list.Items[i]
		switch {
		case p.DeletionTimestamp != nil:
		case p.Status.Phase != corev1.PodRunning:
			wrong.add("%s is %s%s", p.Name, p.Status.Phase, waitingReason(p))
		case !isReady(p):
			wrong.add("%s is not ready%s", p.Name, waitingReason(p))
		default:
			ready++
		}
	}
	if len(list.Items) == 0 {
		return fail("namespace %s has no pod with the labels %s", t.Namespace, t.podSelector())
	}
	if ready > 0 {
		return conclude(nil, wrong, "%d ready", ready)
	}
	return fail("%s", wrong)
}

// isReady reports whether a pod is ready.
func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waitingReason returns " (NAME: REASON MESSAGE)" for the first container of a pod that waits with
// a reason. Init containers come first. It returns "" if none waits.
func waitingReason(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "" {
			return fmt.Sprintf(" (%s: %s %s)", s.Name, w.Reason, w.Message)
		}
	}
	return ""
}

// replicasAnswer fails if the control plane was not found, or if a replica is not ready. It asks
// each replica for /ready.
func replicasAnswer(ctx context.Context, t *Target) outcome {
	if t.Control == nil {
		return fail("%v", t.ControlError)
	}
	var wrong findings
	for _, r := range t.Control.Replicas {
		if _, _, err := get(ctx, r, "/ready"); err != nil {
			wrong.add("%s: %v", r.Name, err)
		}
	}
	return conclude(wrong, nil, "%d replicas", len(t.Control.Replicas))
}

// eachAnswer returns the answers of the replicas to a GET request by the replicas' names, and a
// finding for each replica that did not answer.
func (t *Target) eachAnswer(ctx context.Context, path string) (map[string][]byte, findings) {
	answers := map[string][]byte{}
	var wrong findings
	for _, r := range t.Control.Replicas {
		body, _, err := get(ctx, r, path)
		if err != nil {
			wrong.add("%s: %v", r.Name, err)
			continue
		}
		answers[r.Name] = body
	}
	return answers, wrong
}

// versionsAgree warns if the replicas have different versions, compared as text, and fails if one
// does not answer.
func versionsAgree(ctx context.Context, t *Target) outcome {
	answers, wrong := t.eachAnswer(ctx, "/version")
	byVersion := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		v := strings.TrimSpace(string(answers[name]))
		byVersion[v] = append(byVersion[v], name)
	}
	var differences findings
	if len(byVersion) > 1 {
		for _, v := range slices.Sorted(maps.Keys(byVersion)) {
			differences.add("%s: %s", v, strings.Join(byVersion[v], ", "))
		}
	}
	return conclude(wrong, differences, "%s", strings.Join(slices.Sorted(maps.Keys(byVersion)), ""))
}

// retryInterval is the time between two comparisons of replicas.
const retryInterval = 500 * time.Millisecond

// replicasAgree fails if the replicas have different objects or services, or if one does not
// answer. It repeats the comparison for t.Settle until it passes. It passes if there is one
// replica. A canceled ctx ends the repetition.
func replicasAgree(ctx context.Context, t *Target) outcome {
	if len(t.Control.Replicas) < 2 {
		return pass("there is one replica")
	}
	end := t.Now().Add(t.Settle)
	for {
		o := t.compareReplicas(ctx)
		if o.status == Pass || !t.Now().Before(end) {
			return o
		}
		select {
		case <-ctx.Done():
			return o
		case <-time.After(retryInterval):
		}
	}
}

// compareReplicas compares the hashes of objects and services between the first replica that
// answers and each other one. It fails for each difference, and for a replica that does not answer
// or whose answer is malformed. It passes with a hash of all objects and services.
func (t *Target) compareReplicas(ctx context.Context) outcome {
	var wrong findings
	hash := ""
	for _, page := range []string{"configz", "registryz"} {
		var first map[string]string
		firstName := ""
		for _, r := range t.Control.Replicas {
			body, _, err := get(ctx, r, "/debug/"+page)
			if err != nil {
				wrong.add("%s: %v", r.Name, err)
				continue
			}
			items, err := hashItems(body)
			if err != nil {
				wrong.add("%s: /debug/%s: %v", r.Name, page, err)
				continue
			}
			if first == nil {
				first, firstName = items, r.Name
				hash += hashOf(items)[:8]
				continue
			}
			for _, name := range differingKeys(first, items) {
				wrong.add("%s differs between %s and %s", name, firstName, r.Name)
			}
		}
	}
	return conclude(wrong, nil, "hash %s", hash)
}

// hashItems returns a hash of each object or service in the JSON list of a debug page, by "KIND
// NAMESPACE/NAME" or "service HOSTNAME". Equal names have their hashes joined in the order of the
// list. Resource versions are not hashed: a write of the status alone changes them, and replicas
// show the version in which they read the rest of the object last.
func hashItems(body []byte) (map[string]string, error) {
	var list []map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&list); err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, item := range list {
		hostname, _ := item["hostname"].(string)
		name := "service " + hostname
		if kind, _ := item["kind"].(string); kind != "" {
			metadata, _ := item["metadata"].(map[string]any)
			delete(metadata, "resourceVersion")
			name = fmt.Sprintf("%s %v/%v", kind, cmp.Or(metadata["namespace"], any("")), metadata["name"])
		}
		text, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		items[name] += fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return items, nil
}

// hashOf returns a hash of the names and hashes of all items.
func hashOf(items map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(items)) {
		fmt.Fprintln(h, name, items[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// differingKeys returns the keys that only one map has or whose values differ, sorted. A missing
// value is equal to "".
func differingKeys(a, b map[string]string) []string {
	all := map[string]bool{}
	for k, v := range a {
		if b[k] != v {
			all[k] = true
		}
	}
	for k, v := range b {
		if a[k] != v {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// memoryShare is the share of the memory limit above which a container is near it.
const memoryShare = 0.8

// limitsSuffice fails if any container of the control plane's pods was killed for its memory. It
// warns if a replica's process uses more than memoryShare of the limit of its container discovery.
// Without a limit or a known use there is no warning.
func limitsSuffice(ctx context.Context, t *Target) outcome {
	list, err := t.Client.Kubernetes.CoreV1().Pods(t.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: t.podSelector()})
	if err != nil {
		return requestFailed(err)
	}
	var wrong, near findings
	for i := range list.Items {
		p := &list.Items[i]
		wrong = append(wrong, killedContainers(p)...)
		limit := int64(0)
		for _, c := range p.Spec.Containers {
			if c.Name == "discovery" {
				limit = c.Resources.Limits.Memory().Value()
			}
		}
		used := t.residentMemory(ctx, p.Name)
		if limit > 0 && used > memoryShare*float64(limit) {
			near.add("%s uses %.0f of %d MiB", p.Name, used/(1<<20), limit>>20)
		}
	}
	return conclude(wrong, near, "no container was killed")
}

// killedContainers returns a finding for each container of a pod whose last termination was an OOM
// kill.
func killedContainers(p *corev1.Pod) (killed findings) {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := s.LastTerminationState.Terminated; end != nil && end.Reason == "OOMKilled" {
			killed.add("%s: container %s was killed for its memory at %s", p.Name, s.Name,
				end.FinishedAt.UTC().Format(time.RFC3339))
		}
	}
	return killed
}

// residentMemory returns the memory of the replica in the pod name in bytes, or 0 if it is not
// known.
func (t *Target) residentMemory(ctx context.Context, name string) float64 {
	if t.Control == nil {
		return 0
	}
	for _, r := range t.Control.Replicas {
		if r.Name == name {
			body, _, err := get(ctx, r, "/metrics")
			if err == nil {
				return metricValue(body, "process_resident_memory_bytes")
			}
		}
	}
	return 0
}

// metricValue returns the value of a metric without labels in Prometheus's text format, or 0 if
// there is none.
func metricValue(body []byte, name string) float64 {
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return v
			}
		}
	}
	return 0
}

// noProblems warns of each Problem with the severity Error at any replica. It fails if a replica
// does not answer or answers malformed JSON. The same Problem of several replicas is reported once.
func noProblems(ctx context.Context, t *Target) outcome {
	answers, wrong := t.eachAnswer(ctx, "/debug/problemz")
	var errors findings
	seen := map[string]bool{}
	for _, body := range answers {
		var list []debug.Problem
		if err := json.Unmarshal(body, &list); err != nil {
			return fail("/debug/problemz: %v", err)
		}
		for _, p := range list {
			if text := p.String(); p.Severity == string(config.Error) && !seen[text] {
				seen[text] = true
				errors.add("%s", text)
			}
		}
	}
	slices.Sort(errors)
	return conclude(wrong, errors, "no errors")
}

// clockSkew is the difference of clocks that is reported, and maxClockSkew the difference that
// fails.
const (
	clockSkew    = 30 * time.Second
	maxClockSkew = 5 * time.Minute
)

// clocksAgree compares the clocks of the API server and the replicas with the one of this machine.
// It warns of more than clockSkew and fails for more than maxClockSkew. Servers that do not answer
// are skipped.
func clocksAgree(ctx context.Context, t *Target) outcome {
	var wrong, far findings
	if t.Client != nil {
		// The typed clients do not return headers.
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			strings.TrimSuffix(t.Client.Config.Host, "/")+"/version", nil)
		if err != nil {
			return fail("%v", err)
		}
		if answer, err := t.Client.HTTP.Do(request); err == nil {
			answer.Body.Close()
			t.compareClock("the API server", answer.Header, &wrong, &far)
		}
	}
	if t.Control != nil {
		for _, r := range t.Control.Replicas {
			if _, header, err := get(ctx, r, "/version"); err == nil {
				t.compareClock(r.Name, header, &wrong, &far)
			}
		}
	}
	return conclude(wrong, far, "within %s of this machine", clockSkew)
}

// compareClock adds to wrong or far if the Date in header differs from the time of this machine by
// more than maxClockSkew or clockSkew. It does nothing if there is no valid Date.
func (t *Target) compareClock(name string, header http.Header, wrong, far *findings) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	difference := date.Sub(t.Now()).Round(time.Second)
	switch {
	case difference.Abs() > maxClockSkew:
		wrong.add("%s differs by %s", name, difference)
	case difference.Abs() > clockSkew:
		far.add("%s differs by %s", name, difference)
	}
}
