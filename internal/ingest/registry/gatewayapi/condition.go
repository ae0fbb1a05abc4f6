package gatewayapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict is the result of a check: a reason of the specification and a message. The zero value is
// a passed check.
type verdict struct{ reason, message string }

// ok reports whether the check passed.
func (v verdict) ok() bool { return v.reason == "" }

// worse replaces v by the verdict o of another check if v has passed. The first failure is kept.
func (v *verdict) worse(o verdict) {
	if v.ok() {
		*v = o
	}
}

// conditionList builds the conditions of one object or listener.
type conditionList struct {
	generation int64
	list       []metav1.Condition
}

// add appends a condition of type kind. It is true with the reason passed and message, or if v has
// failed, false with the reason and message of v.
func (c *conditionList) add(kind, passed, message string, v verdict) {
	status := metav1.ConditionTrue
	if !v.ok() {
		status, passed, message = metav1.ConditionFalse, v.reason, v.message
	}
	c.set(kind, status, passed, message)
}

// set appends a condition of type kind with these values, for the generation of the list.
func (c *conditionList) set(kind string, status metav1.ConditionStatus, reason, message string) {
	c.list = append(c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.generation,
	})
}
