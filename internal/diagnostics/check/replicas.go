package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// podsReady fails if no pod of the control plane is ready, also if there is none, and warns if some
// are not. Pods that are being deleted are ignored; it fails too if there are no others.
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
	switch {
	case ready > 0:
		return conclude(nil, wrong, "%d ready", ready)
	case len(wrong) == 0:
		return fail("all %d pods are being deleted", len(list.Items))
	default:
		return fail("%s", wrong)
	}
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
// list. Resource versions are not hashed, because a write of the status alone changes them, and
// replicas may show an older version. A malformed list is an error.
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
			namespace, _ := metadata["namespace"].(string)
			object, _ := metadata["name"].(string)
			name = kind + " " + namespace + "/" + object
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

// differingKeys returns the keys whose values in a and b differ, sorted. A missing key has the
// value "".
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

// noProblems warns of each Problem with the severity Error at any replica. It fails if a replica
// does not answer; malformed JSON is then the only failure that it reports. The same Problem of
// several replicas is reported once.
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
