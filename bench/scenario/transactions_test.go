package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/bench/report"
)

func TestTransactionsRunAndConnectionsAreCounted(t *testing.T) {
	lab := testLab(t)
	backend, err := lab.standalone(t.Context())
	require.NoError(t, err)
	redis, err := openServerInfo(t.Context(), backend.Nodes[0].Addr)
	require.NoError(t, err)
	defer redis.conn.Close()
	for _, kind := range transactionKinds() {
		crowd, err := dialCrowd(t.Context(), backend.Nodes[0].Addr, kind, time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.NoError(t, crowd.run(t.Context(), 0, 100*time.Millisecond))
		require.Greater(t, len(crowd.delays()), 1, kind)
		now, ever, err := redis.connections()
		require.NoError(t, err)
		require.GreaterOrEqual(t, now, float64(transactionClients))
		require.GreaterOrEqual(t, ever, now)
		crowd.close()
	}
	_, err = infoField("a:1\r\n", "b")
	require.ErrorContains(t, err, "INFO has no b")
}

func TestConnectionsThatReplaceOthersAreToldFromGrowth(t *testing.T) {
	lab := testLab(t)
	lab.Subject = "sluiced"
	for _, fact := range []struct {
		name  string
		value float64
	}{{"rate", 3000}, {firstConnections, 10}, {mostConnections, 15}, {openedConnections, 105}} {
		lab.fact("transactions", "sluiced", "transactions with WATCH: "+fact.name, "", fact.value)
	}
	judgeTransactions(lab)
	bars := map[string]report.Bar{}
	for _, bar := range lab.Report.Bars {
		bars[bar.What] = bar
	}
	require.True(t, bars["growth of backend connections, with WATCH"].Reached)
	require.InDelta(t, 100, bars["backend connections made in the place of others, with WATCH"].Value, 0)
	require.NotEmpty(t, bars["growth of backend connections, in steps"].Missing)
}
