package route

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Three nodes of a cluster as each tells it; the first moves slot 93 to the last, which has no slots.
var (
	ofA = bulkReply("a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-8000 [93->-c]\nb 127.0.0.1:2@12 master - 0 5 2 connected 8001-16383\nc 127.0.0.1:3@13 master - 0 6 3 connected\nr 127.0.0.1:4@14 slave a 0 6 1 connected\n")
	ofB = bulkReply("b 127.0.0.1:2@12 myself,master - 0 0 2 connected 8001-16383\na 127.0.0.1:1@11 master - 0 7 1 connected 0-8000\nc 127.0.0.1:3@13 master - 0 8 3 connected\n")
	ofC = bulkReply("c 127.0.0.1:3@13 myself,master - 0 0 3 connected [93-<-a]\na 127.0.0.1:1@11 master - 0 7 1 connected 0-8000\nb 127.0.0.1:2@12 master - 0 8 2 connected 8001-16383\n")
)

func bulkReply(text string) []byte { return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text) }

func TestOwnersAreTheSameWhoeverIsAsked(t *testing.T) {
	ids := []string{"a", "b", "c"}
	verbatim := "txt:" + string(ofB[len("$999\r\n"):])
	seen := OwnersSeen([][]byte{NodesAsSeen(ofA), NodesAsSeen(ofB), NodesAsSeen(ofC)}, ids)
	require.True(t, seen.Moving)
	require.False(t, seen.Strangers)
	for _, reply := range [][]byte{ofA, ofB, ofC, []byte("=1\r\n" + verbatim)} {
		require.Equal(t, seen.Owners, OwnersKnown(NodesAsKnown(reply), ids))
	}
	later := bulkReply("c 127.0.0.1:3@13 myself,master - 0 0 4 connected 93\n")
	require.NotEqual(t, seen.Owners, OwnersSeen([][]byte{NodesAsSeen(ofA), NodesAsSeen(ofB), NodesAsSeen(later)}, ids).Owners)
	bumped := bulkReply("c 127.0.0.1:3@13 myself,master - 0 0 4 connected\n")
	require.NotEqual(t, seen.Owners, OwnersSeen([][]byte{NodesAsSeen(ofA), NodesAsSeen(ofB), NodesAsSeen(bumped)}, ids).Owners, "a slot that came and went")
}

func TestOwnersTellStrangers(t *testing.T) {
	require.True(t, OwnersSeen([][]byte{NodesAsSeen(ofA)}, []string{"a"}).Strangers, "b has slots")
	require.True(t, OwnersSeen([][]byte{NodesAsSeen(ofA), NodesAsSeen(ofB)}, []string{"a", "b"}).Strangers, "c gets keys")
	require.False(t, OwnersSeen([][]byte{NodesAsSeen(ofB), NodesAsSeen(ofB)}, []string{"b", "a"}).Moving)
	demoted := bulkReply("a 127.0.0.1:1@11 myself,slave b 0 0 2 connected\nb 127.0.0.1:2@12 master - 0 5 2 connected 0-16383\n")
	require.True(t, OwnersSeen([][]byte{NodesAsSeen(demoted), NodesAsSeen(ofB)}, []string{"a", "b"}).Strangers)
}

func TestReducedErrorsStayErrors(t *testing.T) {
	for _, reply := range []string{"-NOPERM no\r\n", ":1\r\n", "$-1\r\n", "*0\r\n", "=3\r\nabc\r\n"} {
		require.NotNil(t, FirstError([][]byte{NodesAsSeen([]byte(reply))}), reply)
		require.NotNil(t, FirstError([][]byte{NodesAsKnown([]byte(reply))}), reply)
	}
}
