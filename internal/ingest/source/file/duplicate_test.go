package file

import "testing"

const usedElsewhere = ", which takes precedence; this one is not used"

func TestSameObjectInTwoFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/b.yaml", rule("x", "b"))
	write(t, dir+"/c.yaml", docs(rule("w", "c"), rule("x", "c")))
	f := follow(t, dir, Options{})
	f.untilState("w=c", "x=b", "error in c.yaml: DestinationRule/default/x (c.yaml#2:6): is also in b.yaml#1:1"+usedElsewhere)
	// The first by path takes precedence, in any order of creation.
	f.atomically("a.yaml", rule("x", "a"))
	f.untilState("w=c", "x=a",
		"error in b.yaml: DestinationRule/default/x (b.yaml#1:1): is also in a.yaml#1:1"+usedElsewhere,
		"error in c.yaml: DestinationRule/default/x (c.yaml#2:6): is also in a.yaml#1:1"+usedElsewhere)
	// A change of an ignored object changes only its Problem.
	f.atomically("b.yaml", "# moved\n"+rule("x", "b2"))
	f.untilState("w=c", "x=a",
		"error in b.yaml: DestinationRule/default/x (b.yaml#1:2): is also in a.yaml#1:1"+usedElsewhere,
		"error in c.yaml: DestinationRule/default/x (c.yaml#2:6): is also in a.yaml#1:1"+usedElsewhere)
	// The object with precedence moves within its file: Problems of the others name its new line.
	f.atomically("a.yaml", "# moved\n"+rule("x", "a"))
	f.untilState("w=c", "x=a",
		"error in b.yaml: DestinationRule/default/x (b.yaml#1:2): is also in a.yaml#1:2"+usedElsewhere,
		"error in c.yaml: DestinationRule/default/x (c.yaml#2:6): is also in a.yaml#1:2"+usedElsewhere)
	f.remove("a.yaml")
	f.untilState("w=c", "x=b2", "error in c.yaml: DestinationRule/default/x (c.yaml#2:6): is also in b.yaml#1:2"+usedElsewhere)
	f.remove("b.yaml")
	f.untilState("w=c", "x=c")
}

func TestSameObjectTwiceInOneFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", docs(rule("x", "one"), rule("x", "two")))
	f := follow(t, dir, Options{})
	f.untilState("x=one", "error in a.yaml: DestinationRule/default/x (a.yaml#2:6): is also in a.yaml#1:1"+usedElsewhere)
	f.atomically("a.yaml", rule("x", "two"))
	f.untilState("x=two")
}

func TestObjectMovesToAnotherFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", rule("x", "x"))
	f := follow(t, dir, Options{})
	f.untilState("x=x")
	f.rename(f.path("a.yaml"), f.path("z.yaml"))
	f.until("the new place", func() bool { return f.objects["x"] != nil && f.objects["x"].Origin == "z.yaml#1:1" })
	f.untilState("x=x")
}

func TestBrokenFirstFileDoesNotReplaceTheSecond(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", rule("x", "not good"))
	write(t, dir+"/b.yaml", rule("x", "b"))
	f := follow(t, dir, Options{})
	f.until("b's", func() bool { return f.synced && f.objects["x"] != nil && hostOf(f.objects["x"]) == "b" })
	if len(f.problems["b.yaml"]) > 0 {
		t.Errorf("there is %s", f.state())
	}
}
