package event

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

const (
	// component is the source of Events, as of istiod.
	component = "istiod"
	// rejectedReason, conflictReason and invalidReason are the reasons of Events.
	rejectedReason = "RejectedByProxies"
	conflictReason = "ConflictingConfiguration"
	invalidReason  = "InvalidConfiguration"
	// maxMessage is the size that API servers accept.
	maxMessage = 1024
	// maxNamePrefix limits the part of the object's name in the name of an Event.
	maxNamePrefix = 200
)

// isReported reports whether a Problem is an error, the rejection of a resource by proxies, or a
// conflict because of which proxies are not served a part of the object.
func isReported(p config.Problem) bool {
	return p.Severity == config.Error || p.Code == code.ProxyRejected || isConflict(p)
}

// isConflict reports whether a Problem is a conflict of listeners or Gateways.
func isConflict(p config.Problem) bool {
	return p.Code == code.ListenerConflict || p.Code == code.ConflictingGateways
}

// newEvent returns the Event of a Problem of an object, reported by pod. Its reason is that the
// object was rejected by proxies, is in conflict, or else is invalid; the message is cut to
// maxMessage. Events of objects without a namespace are in the namespace default, as of other
// components. Its name is the same for the same object, reason and message.
func newEvent(object corev1.ObjectReference, p config.Problem, pod string, now time.Time) *corev1.Event {
	reason := invalidReason
	switch {
	case p.Code == code.ProxyRejected:
		reason = rejectedReason
	case isConflict(p):
		reason = conflictReason
	}
	message := fmt.Sprintf("[%s] %s", p.MessageCode(), p.Reason)
	if p.Field != "" {
		message = fmt.Sprintf("[%s] %s: %s", p.MessageCode(), p.Field, p.Reason)
	}
	message = truncate.Text(message, maxMessage)
	sum := sha256.Sum256([]byte(string(object.UID) + "\x00" + reason + "\x00" + message))
	namespace := object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      namePrefix(object.Name) + "." + hex.EncodeToString(sum[:8]),
		},
		InvolvedObject: object, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: component, Host: pod}, ReportingController: component,
		ReportingInstance: pod,
		FirstTimestamp:    at, LastTimestamp: at, Count: 1,
	}
}

// namePrefix returns the first maxNamePrefix bytes of an object's name, without dots and dashes at
// the end, after which a dot would be invalid.
func namePrefix(name string) string {
	return strings.TrimRight(name[:min(len(name), maxNamePrefix)], ".-")
}

// renewal returns a merge patch that sets lastTimestamp to that of e, without fractions of a
// second.
func renewal(e *corev1.Event) []byte {
	return fmt.Appendf(nil, `{"lastTimestamp":%q}`, e.LastTimestamp.UTC().Format(time.RFC3339))
}
