package rollout

import (
	"testing"
	"time"
)

// TestTransitionTable compares the transition table with the drawing in doc.go.
func TestTransitionTable(t *testing.T) {
	moves := map[mtlsPhase]map[mtlsEvent]mtlsPhase{
		acceptNew:     {modesChanged: acceptBoth},
		acceptBoth:    {barrierReleased: updateClients, serversLeft: acceptNew},
		updateClients: {modesChanged: acceptBoth, clientsUpdated: acceptNew, serversLeft: acceptNew},
	}
	for phase := range mtlsPhases {
		for event := range mtlsEvents {
			want, moved := moves[phase][event]
			if !moved {
				want = phase
			}
			if got := mtlsTransitions()[phase][event]; got != want {
				t.Errorf("event %d in %s leads to %s, want %s", event, phase, got, want)
			}
		}
	}
}

// TestTransitionTimes checks how long servers accept both modes after clients were updated.
func TestTransitionTimes(t *testing.T) {
	now := time.Unix(1000, 0)
	server, caller := &Client{ID: "server"}, &Client{ID: "caller"}
	for _, c := range []struct {
		name                        string
		callsChange, others, behind bool
		want                        time.Duration
	}{
		{"calls do not change and clients have answered", false, false, false, 0},
		{"calls change", true, false, false, updateDelay},
		{"a client is behind", true, false, true, updateTimeout},
		{"other control planes update clients", true, true, false, updateTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			var x mtlsTransition
			x.acceptBoth(server, c.callsChange)
			x.waitForOthers(now, c.others, true)
			x.beginUpdate(now, map[*Client]struct{}{caller: {}})
			if !c.behind {
				x.markAcked(caller)
			}
			if got := x.finishAt().Sub(now); got != c.want {
				t.Errorf("finishes after %v, want %v", got, c.want)
			}
			if x.removeServer(server); x.phase != acceptNew {
				t.Errorf("without servers the phase is %s", x.phase)
			}
		})
	}
}
