package push

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// progress is the result of one Step of the machine.
type progress struct {
	resources *stream.ResourceSnapshot
	// sent is true if Next has something to return.
	sent bool
	// accepted is the event for a voter's acknowledgement; nil if the rollout does not need it.
	accepted rollout.Event
	// converged is when the change was published that the proxy has now answered completely; zero
	// if it has not.
	converged time.Time
	// answered are the changes that the proxy has now answered completely, in the way of outcome.
	answered pendingChanges
	outcome  outcome
	// refusedIn are the changes that a rejected response may belong to.
	refusedIn pendingChanges
	// acknowledged is true if the machine has converged to resources and the rollout needs that
	// information.
	acknowledged bool
	// subscribed is true if names differ from the names before the Step.
	subscribed bool
	names      []string
	// given are the types whose resources the proxy has all acknowledged after it unsubscribed from
	// names.
	given []string
}

// applyEvent applies an event to the stream's machine and carries out the actions: it wakes the
// writer, and adds events for the rollout. It also reports names of Secrets, and records NACKs,
// answers to changes, metrics and logs. It does nothing after the stream has ended, or if the
// machine panics.
func (c *Client) applyEvent(e stream.Event) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	actions, before := c.stepMachine(e)
	if c.ended != nil { // the machine panicked
		c.mu.Unlock()
		return
	}
	p := c.recordActions(actions)
	r, isRequest := e.(stream.Request)
	if isRequest {
		p.names = c.machine.Names(r.TypeURL)
		p.subscribed = c.env.needs.named[r.TypeURL] && !stream.EqualNames(before, p.names)
		if len(r.Unsubscribe) > 0 && c.env.nacks.hasStanding(c.id) {
			p.given = c.machine.AckedTypes()
		}
	}
	c.mu.Unlock()

	if p.sent {
		c.wake.Notify()
	}
	if p.subscribed {
		c.env.events.add(rollout.Subscribed{Client: &c.handle, TypeURL: r.TypeURL, Names: p.names})
	}
	if isRequest && r.TypeURL == api.SecretType {
		c.secrets.setNames(c.subscribedNames(api.SecretType))
	}
	if !p.converged.IsZero() {
		c.env.metrics.Converged(c.env.clock.Now().Sub(p.converged))
	}
	if !p.answered.isEmpty() {
		c.env.changes.addAnswer(p.answered, c.node, p.outcome, c.env.clock.Now())
	}
	for _, a := range actions {
		c.reportAction(a, p.refusedIn)
	}
	for _, typeURL := range p.given {
		c.env.nacks.endType(c.id, typeURL)
	}
	if p.accepted != nil {
		c.env.events.add(p.accepted)
	}
	if p.acknowledged {
		c.env.events.add(rollout.Acknowledged{Client: &c.handle, Resources: p.resources})
	}
}

// recordActions records the actions of a Step in the session: the response to write, the end of the
// stream, refusals, and convergence. It returns what applyEvent has to report after unlocking. An
// acceptance is included only if the proxy is a voter and the rollout needs it. session.mu must be
// held.
func (c *Client) recordActions(actions []stream.Action) progress {
	p := progress{resources: c.resources}
	for _, a := range actions {
		switch a := a.(type) {
		case stream.Send:
			c.out, c.sending, p.sent = &a, true, true
			c.answer.sent = true
		case stream.EndStream:
			c.ended, p.sent = ProtocolError{a.Reason, a.Limit}, true
		case stream.Ack:
			if c.isVoter() && c.env.needs.needsAccepted(a.TypeURL) {
				p.accepted = c.acceptedEvent(a)
			}
		case stream.Nack:
			c.answer.refused, p.refusedIn = true, c.answer.pending
		}
	}
	c.recordConvergence(&p)
	return p
}

// recordConvergence records in p how far the proxy has answered, and marks the change that it has
// converged to as reported. Nothing is answered or acknowledged while a newer ResourceSnapshot is
// in the mailbox; nor is it acknowledged unless the rollout needs progress and the stream has taken
// a ResourceSnapshot. Convergence is reported only after a response was written, and only once for
// each change. session.mu must be held.
func (c *Client) recordConvergence(p *progress) {
	if !c.answer.pending.isEmpty() && c.mailbox.Load() == nil && c.machine.HasAnsweredAll() {
		p.answered, p.outcome = c.answer.finish()
	}
	p.acknowledged = c.env.needs.progress.Load() && c.hasAcknowledgedNewest()
	if !c.changed.IsZero() && c.machine.HasConverged() {
		if c.sending {
			p.converged = c.changed
		}
		c.changed = time.Time{}
	}
}

// acceptedEvent returns the event for an acknowledgement. It returns nil if a stream that took the
// same offer has reported the same one. But while refusals are observed, it returns every
// acknowledgement. session.mu must be held.
func (c *Client) acceptedEvent(a stream.Ack) rollout.Event {
	everything := c.machine.AckedType(a.TypeURL)
	if c.offered != nil && !c.env.needs.refusals.Load() && c.offered.isReported(a.Parts, everything) {
		return nil
	}
	return rollout.Accepted{
		Client:     &c.handle,
		TypeURL:    a.TypeURL,
		Parts:      a.Parts,
		Resources:  c.resources,
		Everything: everything,
	}
}

// reportAction reports an action to the logs, the metrics or the rollout. A NACK is logged, counted
// and recorded, also in refusedIn, the changes that it may be about, and added to the events of the
// rollout if the proxy is a voter (reportNack). Wanted names are only added to the events. An ACK
// is counted and ends the stream's standing NACKs of the type.
func (c *Client) reportAction(a stream.Action, refusedIn pendingChanges) {
	env := c.env
	switch a := a.(type) {
	case stream.Ack:
		env.metrics.Acked(a.TypeURL)
		env.nacks.endType(c.id, a.TypeURL)
	case stream.Nack:
		c.reportNack(a, refusedIn)
	case stream.Stale:
		env.metrics.ExpiredNonce(a.TypeURL)
	case stream.Late:
		env.metrics.Late(a.TypeURL)
		env.log.Warn("ADS:"+api.ShortType(a.TypeURL)+": sent to "+c.id+
			" although it has not acknowledged the clusters within the deadline",
			"resources", a.Names, "clusters", a.Clusters)
	case stream.Unknown:
		env.log.Warn("ADS: unknown type", "connection", c.id, "type", a.TypeURL)
	case stream.Want:
		env.events.add(rollout.NamesWanted{Client: &c.handle, TypeURL: a.TypeURL, Names: a.Names})
	}
}

// reportNack records a refusal, also in the changes that it may be about, logs and counts it, and
// reports it to the rollout if the proxy is a voter. If the current ResourceSnapshot no longer
// contains the refused resources, the refusal ends at once, because no later response of the type
// may follow that would end it.
func (c *Client) reportNack(a stream.Nack, refusedIn pendingChanges) {
	env := c.env
	n := Nack{
		Time: env.clock.Now(), Connection: c.id, Proxy: c.node, TypeURL: a.TypeURL,
		Nonce: a.Nonce, Version: a.Version, Message: a.Message, Standing: true,
		Resources: refusedOf(a.Resources), candidates: refusedOf(a.Sent),
	}
	env.nacks.add(n)
	env.changes.addRefusal(refusedIn, n)
	if c.isVoter() {
		e := rollout.Refused{Client: &c.handle, TypeURL: n.TypeURL}
		for _, r := range n.Resources {
			e.Resources = append(e.Resources, rollout.RefusedResource{
				Name: r.Name, Version: r.Version, Message: n.ReasonFor(r.Name), From: r.From,
			})
		}
		env.events.add(e)
	}
	env.metrics.Refused(n)
	env.log.Warn("ADS:"+api.ShortType(a.TypeURL)+": ACK ERROR "+c.id, "resources", n.Resources, "message", a.Message)
	if len(n.blamedResources()) == 0 {
		return
	}
	if w, _ := c.newestResources(); w != nil {
		env.nacks.endOutdated(c.id, w)
	}
}

// reportProgress adds an Acknowledged event for the newest ResourceSnapshot to the rollout's
// events. It does nothing unless the proxy has acknowledged everything of it and no newer one is in
// the mailbox.
func (c *Client) reportProgress() {
	if w, acknowledged := c.newestResources(); acknowledged {
		c.env.events.add(rollout.Acknowledged{Client: &c.handle, Resources: w})
	}
}
