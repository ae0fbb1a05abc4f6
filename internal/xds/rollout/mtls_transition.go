package rollout

import (
	"fmt"
	"time"
)

// A change of mutual TLS modes (PeerAuthentication) has three phases. Servers first accept the old
// and the new mode, and acknowledge that behind the server-first barrier. Then clients are updated.
// When they have acknowledged, or after updateTimeout, servers accept only the new mode. Delays
// between the phases cover the time in which Envoy's workers apply what Envoy has acknowledged.
//
// Other control planes go through the same phases at about the same time, each for its own proxies.
// Where proxies of others are affected and calls change, each phase lasts as long as it may:
// another control plane may be late by barrierTimeout.
//
// A control plane handles only changes that it has seen. After a start it serves the present modes.

const (
	// updateTimeout bounds how long servers accept both modes for clients that do not answer.
	updateTimeout = 3 * time.Second
	// updateDelay is the minimum time for this if clients must call them in another way.
	updateDelay = 500 * time.Millisecond
)

// mtlsPhase is a phase of a change of mutual TLS modes.
type mtlsPhase int

const (
	// acceptNew: servers accept the configured modes. This is also the phase when no change is
	// under way.
	acceptNew mtlsPhase = iota
	// acceptBoth: servers accept the old and the new mode, and clients are held back until servers
	// have acknowledged.
	acceptBoth
	// updateClients: clients are offered the new configuration and acknowledge it.
	updateClients
	mtlsPhases
)

// String returns the name of the phase.
func (p mtlsPhase) String() string {
	return [mtlsPhases]string{"AcceptNew", "AcceptBoth", "UpdateClients"}[p]
}

// mtlsEvent is what moves a change of mutual TLS modes on.
type mtlsEvent int

const (
	// modesChanged: the modes of a server change in a way that its clients have to know.
	modesChanged mtlsEvent = iota
	// barrierReleased: servers accept both modes, and nothing holds back clients.
	barrierReleased
	// clientsUpdated: all clients have acknowledged the new configuration, or updateTimeout has
	// passed.
	clientsUpdated
	// serversLeft: no server accepts both modes any more.
	serversLeft
	mtlsEvents
)

// mtlsTransitions returns the transition table: the next phase for each phase and event.
// modesChanged leads to AcceptBoth from any phase, serversLeft to AcceptNew. barrierReleased leads
// from AcceptBoth to UpdateClients, clientsUpdated from there to AcceptNew. An event that is not
// expected in a phase leaves it as it is.
func mtlsTransitions() [mtlsPhases][mtlsEvents]mtlsPhase {
	return [mtlsPhases][mtlsEvents]mtlsPhase{
		acceptNew: {
			modesChanged: acceptBoth, barrierReleased: acceptNew, clientsUpdated: acceptNew, serversLeft: acceptNew,
		},
		acceptBoth: {
			modesChanged:    acceptBoth,
			barrierReleased: updateClients,
			clientsUpdated:  acceptBoth,
			serversLeft:     acceptNew,
		},
		updateClients: {
			modesChanged: acceptBoth, barrierReleased: updateClients, clientsUpdated: acceptNew, serversLeft: acceptNew,
		},
	}
}

// mtlsTransition is the state of the changes of mutual TLS modes that are under way. They go
// through the phases together.
type mtlsTransition struct {
	phase mtlsPhase
	// servers accept more than the configured modes.
	servers map[*Client]struct{}
	// callsChange is set if clients must call some of them in another way.
	callsChange bool
	// othersAffected means that clients connected to other control planes may call them.
	othersAffected bool
	// updating is when the phase UpdateClients began, behind the clients that have not acknowledged
	// since.
	updating time.Time
	behind   map[*Client]struct{}
	// othersUntil is until when clients of other control planes may not know how to call servers.
	othersUntil time.Time
}

// applyEvent moves to the phase that follows an event. If that is another phase, updating and
// behind are cleared, and on the return to acceptNew everything but othersUntil. It changes nothing
// if the phase stays.
func (t *mtlsTransition) applyEvent(e mtlsEvent) {
	from := t.phase
	t.phase = mtlsTransitions()[from][e]
	switch {
	case t.phase == from:
	case t.phase == acceptNew:
		*t = mtlsTransition{othersUntil: t.othersUntil}
	default:
		t.updating, t.behind = time.Time{}, nil
	}
}

// acceptBoth records that the server c accepts both modes from now on, and begins the phase
// AcceptBoth. callsChange is set if clients must call c in another way than before.
func (t *mtlsTransition) acceptBoth(c *Client, callsChange bool) {
	if t.servers == nil {
		t.servers = map[*Client]struct{}{}
	}
	t.servers[c] = struct{}{}
	t.callsChange = t.callsChange || callsChange
	t.applyEvent(modesChanged)
}

// removeServer removes a client that accepts only the configured modes or has disconnected. If no
// server is left, the transition ends.
func (t *mtlsTransition) removeServer(c *Client) {
	if delete(t.servers, c); len(t.servers) == 0 {
		t.applyEvent(serversLeft)
	}
}

// removeClient removes a disconnected client from the servers in transition and from the clients
// that must acknowledge.
func (t *mtlsTransition) removeClient(c *Client) {
	t.removeServer(c)
	delete(t.behind, c)
}

// beginUpdate moves the transition from AcceptBoth, in which it must be, to UpdateClients at the
// time now. behind are the clients that must acknowledge; the transition keeps and changes the map.
func (t *mtlsTransition) beginUpdate(now time.Time, behind map[*Client]struct{}) {
	t.applyEvent(barrierReleased)
	t.updating, t.behind = now, behind
}

// markAcked records that a client has acknowledged its class's whole ResourceSnapshot, so that the
// phase no longer waits for it.
func (t *mtlsTransition) markAcked(c *Client) { delete(t.behind, c) }

// waitForOthers prolongs the phases for clients of other control planes. If exist and callsChange
// are set, it moves othersUntil to barrierTimeout plus updateTimeout after now. If exist is set, a
// server is in transition, and othersUntil is still ahead, it sets othersAffected: then each phase
// lasts until its timeout. It does nothing unless exist is set.
func (t *mtlsTransition) waitForOthers(now time.Time, exist, callsChange bool) {
	if exist && callsChange {
		t.othersUntil = now.Add(barrierTimeout + updateTimeout)
	}
	if exist && len(t.servers) > 0 && now.Before(t.othersUntil) {
		t.othersAffected = true
	}
}

// finishAt returns when the phase UpdateClients ends if nothing more is acknowledged. That is
// updateTimeout after its start while clients are behind or other control planes' proxies are
// affected. Otherwise it is updateDelay if calls change, and at once if not.
func (t *mtlsTransition) finishAt() time.Time {
	switch {
	case len(t.behind) > 0 || t.othersAffected:
		return t.updating.Add(updateTimeout)
	case t.callsChange:
		return t.updating.Add(updateDelay)
	default:
		return t.updating
	}
}

// String describes the phase and the numbers of servers and clients that are behind, for test
// scripts.
func (t *mtlsTransition) String() string {
	return fmt.Sprintf("%s servers=%d behind=%d", t.phase, len(t.servers), len(t.behind))
}
