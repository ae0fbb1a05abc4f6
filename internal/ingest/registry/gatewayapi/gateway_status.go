package gatewayapi

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// gatewayStatus returns the status of a Gateway: addresses, conditions, the listeners of its own
// spec, and the number of attached ListenerSets. Accepted fails if the Gateway or all its listeners
// are not accepted; the listeners of ListenerSets count too. If only some of its own listeners are
// not programmed, the reason of Accepted is ListenersNotValid. The condition of insecure validation
// of clients is added only if a listener requests certificates without requiring them.
func (c *Converter) gatewayStatus(g *gateway) *Status {
	s := &gatewayv1.GatewayStatus{}
	addresses, programmed := c.addresses(g)
	s.Addresses = addresses
	valid, invalid := 0, 0
	for _, l := range g.listeners {
		if l.parent != g.object.Key {
			continue
		}
		if l.isProgrammed() {
			valid++
		} else {
			invalid++
		}
		s.Listeners = append(s.Listeners, gatewayv1.ListenerStatus{
			Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: int32(len(l.attached)), //nolint:gosec // small
			Conditions: l.conditions(g.object.Generation, g.accepted),
		})
	}
	list := conditionList{generation: g.object.Generation}
	accepted, message := string(gatewayv1.GatewayReasonAccepted), "The Gateway is accepted"
	if invalid > 0 {
		accepted = string(gatewayv1.GatewayReasonListenersNotValid)
		message = fmt.Sprintf("%d of %d listeners are not valid", invalid, valid+invalid)
	}
	v := g.accepted
	if !g.acceptsAnyListener() {
		v.worse(verdict{string(gatewayv1.GatewayReasonListenersNotValid), "No listener is accepted"})
	}
	list.add(string(gatewayv1.GatewayConditionAccepted), accepted, message, v)
	c.addProgrammed(&list, g, programmed)
	list.add(string(gatewayv1.GatewayConditionResolvedRefs), string(gatewayv1.GatewayReasonResolvedRefs),
		"All references are resolved", g.backend)
	for _, l := range g.listeners {
		if l.clients.optional && l.clients.authority != "" {
			list.set(string(gatewayv1.GatewayConditionInsecureFrontendValidationMode), metav1.ConditionTrue,
				string(gatewayv1.GatewayReasonConfigurationChanged), "Client certificates are requested, but not required")
			break
		}
	}
	s.Conditions = list.list
	s.AttachedListenerSets = g.attachedSets()
	return &Status{Generation: g.object.Generation, Value: s}
}

// remoteStatus returns the status of a Gateway whose proxies run elsewhere: its own addresses, no
// listeners, and Accepted and Programmed, as in Istio, although nothing is served.
func remoteStatus(generation int64, spec *gatewayv1.GatewaySpec) *Status {
	list := conditionList{generation: generation}
	list.add(string(gatewayv1.GatewayConditionAccepted), string(gatewayv1.GatewayReasonAccepted),
		"The Gateway is accepted", verdict{})
	list.add(string(gatewayv1.GatewayConditionProgrammed), string(gatewayv1.GatewayReasonProgrammed),
		"The Gateway runs elsewhere: it is not served here", verdict{})
	return &Status{
		Generation: generation,
		Value:      &gatewayv1.GatewayStatus{Addresses: requestedAddresses(spec), Conditions: list.list},
	}
}

// addProgrammed adds the condition Programmed of a Gateway to list. It is false if the Gateway or
// all listeners are not accepted, deployment is impossible, addresses has failed, or no proxy is
// ready.
func (c *Converter) addProgrammed(list *conditionList, g *gateway, addresses verdict) {
	v := g.deployable
	v.worse(addresses)
	v.worse(c.proxiesReady(g))
	switch {
	case !g.accepted.ok():
		v = verdict{string(gatewayv1.GatewayReasonInvalid), g.accepted.message}
	case !g.acceptsAnyListener():
		v = verdict{string(gatewayv1.GatewayReasonInvalid), "No listener is accepted"}
	}
	list.add(string(gatewayv1.GatewayConditionProgrammed), string(gatewayv1.GatewayReasonProgrammed),
		"The Gateway is served", v)
}

// attachedSets returns the number of ListenerSets that the Gateway allows and that have a
// programmed listener, or nil if spec.allowedListeners is not set.
func (g *gateway) attachedSets() *int32 {
	if g.spec.AllowedListeners == nil {
		return nil
	}
	var n int32
	for _, s := range g.sets {
		if s.allowed && g.servesAny(s) {
			n++
		}
	}
	return &n
}

// servesAny reports whether any listener of a ListenerSet is programmed. Listeners of other sets do
// not count.
func (g *gateway) servesAny(s *listenerSet) bool {
	for _, l := range g.listeners {
		if l.parent == s.object.Key && l.isProgrammed() {
			return true
		}
	}
	return false
}

// acceptsAnyListener reports whether a listener of a Gateway or of its ListenerSets is accepted. It
// also returns true if there are no listeners.
func (g *gateway) acceptsAnyListener() bool {
	return len(g.listeners) == 0 ||
		slices.ContainsFunc(g.listeners, func(l *listener) bool { return l.acceptance().ok() })
}

// acceptance returns the verdict for the condition Accepted of a listener: its own, a conflict, or
// missing authorities for client certificates, whichever fails first.
func (l *listener) acceptance() verdict {
	v := l.accepted
	v.worse(l.conflict)
	if !l.clients.verdict.ok() {
		v.worse(verdict{string(gatewayv1.ListenerReasonNoValidCACertificate), l.clients.verdict.message})
	}
	return v
}

// conditions returns the conditions of a listener: Accepted, Programmed, Conflicted and
// ResolvedRefs. parent is the verdict about its Gateway, which affects only Programmed. The reason
// of a conflict is that of l.conflict.
func (l *listener) conditions(generation int64, parent verdict) []metav1.Condition {
	list := conditionList{generation: generation}
	accepted := l.acceptance()
	message := "The listener is accepted"
	for _, v := range l.ignoredOptions() {
		message += "; " + v.message
	}
	list.add(string(gatewayv1.ListenerConditionAccepted), string(gatewayv1.ListenerReasonAccepted), message, accepted)
	programmed := accepted
	if programmed.ok() && !l.isProgrammed() {
		programmed = verdict{string(gatewayv1.ListenerReasonInvalid), l.resolved.message}
	}
	if programmed.ok() && !parent.ok() {
		programmed = verdict{string(gatewayv1.ListenerReasonInvalid), parent.message}
	}
	if !l.accepted.ok() {
		programmed.reason = string(gatewayv1.ListenerReasonInvalid)
	}
	list.add(string(gatewayv1.ListenerConditionProgrammed), string(gatewayv1.ListenerReasonProgrammed),
		"The listener is served", programmed)
	if l.conflict.ok() {
		list.set(string(gatewayv1.ListenerConditionConflicted), metav1.ConditionFalse,
			string(gatewayv1.ListenerReasonNoConflicts),
			"No other listener conflicts with it")
	} else {
		list.set(string(gatewayv1.ListenerConditionConflicted), metav1.ConditionTrue, l.conflict.reason,
			l.conflict.message)
	}
	list.add(string(gatewayv1.ListenerConditionResolvedRefs), string(gatewayv1.ListenerReasonResolvedRefs),
		"All references are resolved", l.resolved)
	return list.list
}

// listenerSetStatus returns the status of a ListenerSet with its listeners. Its conditions Accepted
// and Programmed are true only if its Gateway is accepted and allows it, and at least one of its
// listeners is programmed. If others are not, the reason of Accepted is ListenersNotValid.
func (c *Converter) listenerSetStatus(g *gateway, s *listenerSet) *Status {
	generation := s.object.Generation
	out := &gatewayv1.ListenerSetStatus{}
	valid, total := 0, 0
	for _, l := range g.listeners {
		if l.parent != s.object.Key {
			continue
		}
		total++
		if l.isProgrammed() {
			valid++
		}
		out.Listeners = append(out.Listeners, gatewayv1.ListenerEntryStatus{
			Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: int32(len(l.attached)), //nolint:gosec // small
			Conditions: l.conditions(generation, g.accepted),
		})
	}
	v := s.accepted
	if v.ok() && !g.accepted.ok() {
		v = verdict{string(gatewayv1.ListenerSetReasonParentNotAccepted), g.accepted.message}
	}
	if v.ok() && valid == 0 {
		v = verdict{string(gatewayv1.ListenerSetReasonListenersNotValid), "No listener is valid"}
	}
	passed, message := string(gatewayv1.ListenerSetReasonAccepted), "The ListenerSet is accepted"
	if valid < total {
		passed = string(gatewayv1.ListenerSetReasonListenersNotValid)
		message = fmt.Sprintf("%d of %d listeners are not valid", total-valid, total)
	}
	out.Conditions = setConditions(generation, passed, message, v)
	return &Status{Generation: generation, Value: out}
}

// refusedSetStatus returns the status of a ListenerSet that is neither accepted nor programmed, by
// a failed verdict.
func refusedSetStatus(generation int64, refused verdict) *Status {
	return &Status{
		Generation: generation,
		Value:      &gatewayv1.ListenerSetStatus{Conditions: setConditions(generation, "", "", refused)},
	}
}

// setConditions returns the conditions Accepted and Programmed of a ListenerSet by a verdict. If
// that passes, Accepted has the reason and message.
func setConditions(generation int64, reason, message string, v verdict) []metav1.Condition {
	list := conditionList{generation: generation}
	list.add(string(gatewayv1.ListenerSetConditionAccepted), reason, message, v)
	list.add(string(gatewayv1.ListenerSetConditionProgrammed), string(gatewayv1.ListenerSetReasonProgrammed),
		"The ListenerSet is served", v)
	return list.list
}
