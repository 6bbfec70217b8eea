import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.*; // all: MessageExtBrokerInner moved here from
import org.apache.rocketmq.store.*; // here with 5.0
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Starts a broker's own message store on a directory and says what clients get from it. The store of a real broker is
 * all of the broker that reads or writes these files: load (which recovers), dispatch, pull, query, put, shutdown.
 *
 * <p>BrokerStart HOME: what brokers write beside their stores goes into that directory, so does broker.log (warnings and
 * errors). Each line of standard input is one start, words with tabs between them:
 *
 * <pre>STORE [name=value]...
 *   clFile= cqEntries= indexSlots= indexNum= cqExtFile=    file sizes: bytes, units, slots, units, bytes
 *   cqExt=true       queues with consumequeue_ext
 *   bcqTopics=A,B    topics whose queues hold batches; unknown to 4.x, where they are topics like others
 *   set.NAME=VALUE   any other setting of MessageStoreConfig
 *   pause=DIR        once it runs make DIR/up, wait for DIR/go; with busy=A,B put 2,000 messages a second of these topics
 *   delivered=FILE   pull every queue from its minimum to its maximum, one line a message
 *   keys=FILE        query each line, topic TAB key; found=FILE gets topic TAB key TAB physical offsets; from 5.4 on
 *                    T#TAG is the key that the index has for a tag
 *   put=FILE         then put one message for each line, topic TAB queue id; pull it and query its key; one of
 *                    bcqTopics gets a batch of one
 *   stop=clean|halt  shut down as an operator does (default), or stop at once as a killed broker
 *   stop=loaded      the same as halt, but after load: nothing is started or asked
 * </pre>
 *
 * Each event is one JSON object a line on stdout, the last one of a start "end": nothing more is done, and the store is
 * as a kill leaves it. With "more" another start may follow; else the process ends, whose exit waits 0.3 s for threads
 * of the store. Exit codes: 0 done, 3 load refused, 9 something was thrown.
 * One source for all brokers from 4.9.0 on: what differs between them is reached by reflection, at the file's end.
 */
public final class BrokerStart {
    private static final Map<String, String> SIZES = Map.of(
        "clFile", "mappedFileSizeCommitLog",
        "indexSlots", "maxHashSlotNum",
        "indexNum", "maxIndexNum",
        "cqExt", "enableConsumeQueueExt",
        "cqExtFile", "mappedFileSizeConsumeQueueExt");
    private static final int UNIT_BYTES = 20;
    private static final int PULL_MESSAGES = 32;
    private static final int MOST_EMPTY_PULLS = 1000; // a queue may claim 2^60 messages; nobody waits for these
    private static final long BEFORE_ITS_TIME = 1000; // ms, as clients that know a message's id
    private static final int MOST_HITS = 1 << 16; // brokers answer with 64 at most; tests want to see all of them
    private static final long DISPATCH_MILLIS = 5_000; // of new messages, where something stops it
    private static final int INNER_BATCH = 0x80; // sys flag: the body holds messages that the client unwraps
    private static final int MOST_TRIES = 500; // to stop threads, each some milliseconds
    private static final int MOST_KEYS = 8; // of a message of tests
    private static final String GROUP = "storeio";
    private static final String NEW_KEY = "storeio-new-";

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final Path root;
    private final Map<String, String> options;
    private final DefaultMessageStore store;

    private BrokerStart(Path root, Map<String, String> options) throws Exception {
        this.root = root;
        this.options = options;
        this.store = open(config(), topics());
        slowDown(store, Integer.parseInt(options.getOrDefault("indexNum", "0")));
    }

    public static void main(String[] arguments) throws Exception {
        settle(Path.of(arguments[0]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int code = start(line.split("\t", -1));
            boolean more = code == 0 && isStill();
            emit("end", "more", more);
            if (!more) {
                halt(code);
            }
        }
        halt(0);
    }

    private static int start(String[] words) {
        Map<String, String> options = new LinkedHashMap<>();
        for (String word : List.of(words).subList(1, words.length)) {
            int sign = word.indexOf('=');
            options.put(word.substring(0, sign), plain(word.substring(sign + 1)));
        }
        try {
            return new BrokerStart(Path.of(plain(words[0])), options).run();
        } catch (Throwable thrown) { // an Error, too, is something a broker dies of
            Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
            cause.printStackTrace();
            emit("failed", "error", cause.toString());
            return 9;
        }
    }

    private int run() throws Exception {
        if (!load()) {
            return 3;
        }
        if ("loaded".equals(options.get("stop"))) {
            return stopped(false);
        }
        start();
        if (options.containsKey("pause")) {
            pause(Path.of(options.get("pause")));
        }
        queues();
        if (options.containsKey("delivered")) {
            deliver(Path.of(options.get("delivered")));
        }
        if (options.containsKey("keys")) {
            query(Path.of(options.get("keys")), Path.of(options.get("found")));
        }
        if (options.containsKey("put")) {
            put(Path.of(options.get("put")));
        }
        boolean clean = !"halt".equals(options.get("stop"));
        if (clean) {
            store.shutdown();
        }
        return stopped(clean);
    }

    private int stopped(boolean clean) throws Exception {
        if (!clean) {
            unlock(store);
        }
        emit("stopped", "clean", clean, "abort", Files.exists(root.resolve("abort")));
        return 0;
    }

    /** Says that the store runs by a file "up", and waits for a file "go"; messages are put meanwhile if asked for. */
    private void pause(Path place) throws Exception {
        Files.createFile(place.resolve("up"));
        long end = System.nanoTime() + 120_000_000_000L;
        List<String> busy = options.containsKey("busy") ? List.of(options.get("busy").split(",")) : List.of();
        for (int i = 0; !Files.exists(place.resolve("go")) && System.nanoTime() < end; i++) {
            for (int k = 0; k < 20 && !busy.isEmpty(); k++) {
                store.putMessage(newMessage(new Queue(busy.get(k % busy.size()), k / 5), "busy" + i + "-" + k));
            }
            Thread.sleep(10);
        }
    }

    // ---- load and start -------------------------------------------------------------------------------------------

    private MessageStoreConfig config() throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root.resolve("commitlog").toString());
        config.setFlushDiskType(FlushDiskType.ASYNC_FLUSH);
        config.setHaListenPort(0); // the store always opens one port; any free one does
        config.setMaxMsgsNumBatch(MOST_HITS);
        config.setFileReservedTime(1_000_000); // hours: nothing is deleted for its age, nor
        config.setDiskMaxUsedSpaceRatio(99); // because this machine's disk is full
        if (options.containsKey("cqEntries")) {
            config.setMappedFileSizeConsumeQueue(Integer.parseInt(options.get("cqEntries")) * UNIT_BYTES);
        }
        for (Map.Entry<String, String> option : options.entrySet()) {
            String key = option.getKey();
            String name = key.startsWith("set.") ? key.substring(4) : SIZES.get(key);
            if (name != null && !set(config, name, option.getValue())) {
                emit("unknown setting", "name", name);
            }
        }
        return config;
    }

    private boolean load() throws Exception {
        long begin = System.nanoTime();
        boolean ok = store.load();
        emit("loaded", "ok", ok, "loadMs", millisSince(begin), "min", ok ? store.getMinPhyOffset() : -1,
            "max", ok ? store.getMaxPhyOffset() : -1);
        return ok;
    }

    private void start() throws Exception {
        long begin = System.nanoTime();
        Watch watch = new Watch(store); // 4.x looks once a second itself, and only then lets start() return
        watch.start();
        noDelayedDeliveries(store);
        store.start();
        double startMs = millisSince(begin);
        watch.storeStarted = true;
        watch.join();
        emit("started", "startMs", startMs, "caughtUpMs", (watch.caughtUp - begin) / 1e6,
            "min", store.getMinPhyOffset(), "max", store.getMaxPhyOffset());
    }

    /** Notes when dispatch has reached the end of the log; ends once the store has started and it stays there. */
    private static final class Watch extends Thread {
        private static final long STAYS_NANOS = 50_000_000;
        private final DefaultMessageStore store;
        private volatile boolean storeStarted;
        private long caughtUp;

        Watch(DefaultMessageStore store) {
            this.store = store;
            setDaemon(true); // if start() throws, nothing waits for this
        }

        @Override
        public void run() {
            boolean behind = true;
            while (behind || !storeStarted || System.nanoTime() - caughtUp < STAYS_NANOS) {
                boolean now = store.dispatchBehindBytes() > 0;
                if (behind && !now) {
                    caughtUp = System.nanoTime();
                }
                behind = now;
                sleep();
            }
        }

        private static void sleep() {
            try {
                Thread.sleep(1);
            } catch (InterruptedException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }

    private void queues() throws Exception {
        for (Queue queue : listQueues()) {
            emit("queue", "topic", queue.topic, "queueId", queue.id,
                "min", store.getMinOffsetInQueue(queue.topic, queue.id),
                "max", store.getMaxOffsetInQueue(queue.topic, queue.id));
        }
    }

    private record Queue(String topic, int id) { }

    private List<Queue> listQueues() {
        List<Queue> queues = new ArrayList<>();
        Map<String, ? extends Map<Integer, ?>> table = store.getConsumeQueueTable();
        for (Map.Entry<String, ? extends Map<Integer, ?>> topic : new TreeMap<>(table).entrySet()) {
            for (Integer id : new TreeSet<>(topic.getValue().keySet())) {
                queues.add(new Queue(topic.getKey(), id));
            }
        }
        return queues;
    }

    // ---- what clients get -----------------------------------------------------------------------------------------

    private void deliver(Path file) throws Exception {
        try (PrintWriter out = new PrintWriter(file.toFile(), StandardCharsets.UTF_8)) {
            out.print("topic\tqueue_id\tunit_offset\tstatus\tqueue_offset\tphysical_offset\tsize\tunique_key\tbody_crc"
                + "\tbody_ok\tinner\n");
            for (Queue queue : listQueues()) {
                pullAll(queue, out);
            }
        }
        emit("delivered");
    }

    /** Follows the broker's next offset as a pull consumer does, from the queue's minimum to its maximum. */
    private void pullAll(Queue queue, PrintWriter out) throws Exception {
        long asked = store.getMinOffsetInQueue(queue.topic, queue.id);
        long max = store.getMaxOffsetInQueue(queue.topic, queue.id);
        int empty = 0;
        int most = PULL_MESSAGES;
        while (asked < max && empty < MOST_EMPTY_PULLS) {
            GetMessageResult answer;
            try {
                answer = store.getMessage(GROUP, queue.topic, queue.id, asked, most, null);
            } catch (Exception thrown) {
                odd(queue, asked++, "THROWS " + thrown, out);
                empty++;
                continue;
            }
            long next = answer.getNextBeginOffset();
            List<ByteBuffer> messages = answer.getMessageBufferList();
            List<Long> units = unitOffsets(answer, asked, next);
            if (units == null) { // 4.x passed units over and does not say which: ask for one message at a time
                most = 1;
            } else {
                empty = messages.isEmpty() ? empty + 1 : 0;
                for (int i = 0; i < messages.size(); i++) {
                    message(queue, units.get(i), String.valueOf(answer.getStatus()), messages.get(i), out);
                }
                if (messages.isEmpty() || next <= asked) {
                    odd(queue, asked, answer.getStatus() + " next=" + next, out);
                }
                most = PULL_MESSAGES;
                asked = Math.max(next, asked + 1);
            }
            answer.release();
        }
        if (asked < max) {
            odd(queue, asked, "GAVE UP before " + max, out);
        }
    }

    private static void odd(Queue queue, long asked, String status, PrintWriter out) {
        row(out, queue.topic, queue.id, asked, status, "", "", "", "", "", "", "");
    }

    private static void message(Queue queue, long unit, String status, ByteBuffer buffer, PrintWriter out) {
        int size = buffer.remaining();
        MessageExt message = decode(buffer);
        if (message == null) {
            row(out, queue.topic, queue.id, unit, "UNDECODABLE", "", "", size, "", "", "", "");
            return;
        }
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        int crc = UtilAll.crc32(body);
        boolean ok = crc == message.getBodyCRC() || body.length == 0;
        String key = message.getProperty("UNIQ_KEY");
        row(out, queue.topic, queue.id, unit, status, message.getQueueOffset(), message.getCommitLogOffset(), size,
            key == null ? "" : key, crc, ok, inner(message));
    }

    private void query(Path keys, Path file) throws Exception {
        try (PrintWriter out = new PrintWriter(file.toFile(), StandardCharsets.UTF_8)) {
            for (String line : Files.readAllLines(keys)) {
                String[] topicAndKey = line.split("\t", -1);
                String topic = plain(topicAndKey[0]);
                String key = plain(topicAndKey[1]);
                List<String> offsets = new ArrayList<>();
                found(topic, key).forEach(offset -> offsets.add(offset.toString()));
                row(out, topic, key, String.join(",", offsets));
            }
        }
        emit("queried");
    }

    /**
     * Returns where the messages lie that have this key, once for each time that the index names them.
     *
     * <p>Clients that look for a message id ask from about its time on, so one that is not found that way does not count.
     */
    private List<Long> found(String topic, String key) throws Exception {
        List<Long> offsets = new ArrayList<>();
        for (MessageExt message : answers(topic, key, 0)) {
            long from = message.getStoreTimestamp() - BEFORE_ITS_TIME;
            if (answers(topic, key, from).stream().anyMatch(
                    other -> other.getCommitLogOffset() == message.getCommitLogOffset())) {
                offsets.add(message.getCommitLogOffset());
            }
        }
        return offsets;
    }

    /** Returns the messages from a time on that have this key. */
    private List<MessageExt> answers(String topic, String key, long begin) throws Exception {
        List<MessageExt> messages = new ArrayList<>();
        QueryMessageResult answer = store.queryMessage(topic, key, MOST_HITS, begin, Long.MAX_VALUE);
        for (ByteBuffer buffer : answer.getMessageBufferList()) {
            MessageExt message = decode(buffer);
            // The index knows only hashes: clients, too, throw away what has another topic or key.
            if (message != null && message.getTopic().equals(topic) && hasKey(message, key)) {
                messages.add(message);
            }
        }
        answer.release();
        return messages;
    }

    /** Decodes as a client does, but leaves the body compressed: what is stored is what is compared. */
    private static MessageExt decode(ByteBuffer buffer) {
        try {
            return MessageDecoder.decode(buffer.slice(), true, false, true);
        } catch (OutOfMemoryError claimed) { // a damaged length, of which the client dies and not the broker
            return null;
        }
    }

    private static boolean hasKey(MessageExt message, String key) {
        String keys = message.getKeys();
        return key.equals(message.getProperty("UNIQ_KEY")) || key.equals("T#" + message.getTags())
            || keys != null && List.of(keys.split(" ")).contains(key);
    }

    // ---- new messages ---------------------------------------------------------------------------------------------

    private record Put(Queue queue, String key, PutMessageResult result, String status) {
        boolean isOk() {
            return result != null && result.isOk();
        }
    }

    private Put put(Queue queue, String key) throws Exception {
        try {
            PutMessageResult result = store.putMessage(newMessage(queue, key));
            return new Put(queue, key, result, String.valueOf(result.getPutMessageStatus()));
        } catch (RuntimeException thrown) { // where the log's positions are below 0
            return new Put(queue, key, null, "THROWS " + thrown);
        }
    }

    private void put(Path file) throws Exception {
        List<Put> puts = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            String[] topicAndQueue = line.split("\t", -1);
            Queue queue = new Queue(plain(topicAndQueue[0]), Integer.parseInt(topicAndQueue[1]));
            puts.add(put(queue, NEW_KEY + puts.size()));
        }
        Watch watch = new Watch(store);
        watch.storeStarted = true;
        watch.start();
        watch.join(DISPATCH_MILLIS); // it may never get there
        for (Put put : puts) {
            boolean ok = put.isOk();
            AppendMessageResult where = ok ? put.result.getAppendMessageResult() : null;
            emit("put", "topic", put.queue.topic, "queueId", put.queue.id, "status", put.status,
                "queueOffset", ok ? where.getLogicsOffset() : -1, "physicalOffset", ok ? where.getWroteOffset() : -1,
                "delivered", ok && isDelivered(put.queue, where),
                "found", ok && found(put.queue.topic, put.key).equals(List.of(where.getWroteOffset())));
        }
    }

    private MessageExtBrokerInner newMessage(Queue queue, String key) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        MessageAccessor.setProperties(message, new HashMap<>(Map.of("KEYS", key)));
        if (List.of(options.getOrDefault("bcqTopics", "").split(",")).contains(queue.topic)) {
            MessageAccessor.putProperty(message, "INNER_NUM", "1"); // a batch of one: other messages get no unit there
            message.setSysFlag(INNER_BATCH);
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTopic(queue.topic);
        message.setQueueId(queue.id);
        message.setBody(("body of " + key).getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 10911));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        return message;
    }

    /** Tells whether a pull at the offset that the broker promised gives the message that was put. */
    private boolean isDelivered(Queue queue, AppendMessageResult where) throws Exception {
        GetMessageResult answer;
        try {
            answer = store.getMessage(GROUP, queue.topic, queue.id, where.getLogicsOffset(), 1, null);
        } catch (RuntimeException thrown) {
            return false;
        }
        List<ByteBuffer> messages = answer.getMessageBufferList();
        MessageExt message = messages.isEmpty() ? null : decode(messages.get(0));
        answer.release();
        return message != null && message.getCommitLogOffset() == where.getWroteOffset()
            && message.getQueueOffset() == where.getLogicsOffset();
    }

    // ---- lines out and in -----------------------------------------------------------------------------------------

    private static void emit(String event, Object... namesAndValues) {
        StringBuilder line = new StringBuilder("{\"event\":").append(json(event));
        for (int i = 0; i < namesAndValues.length; i += 2) {
            line.append(',').append(json(namesAndValues[i])).append(':').append(json(namesAndValues[i + 1]));
        }
        OUT.println(line.append('}'));
    }

    private static String json(Object value) {
        if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : String.valueOf(value).toCharArray()) {
            if (c < ' ' || c == '"' || c == '\\' || Character.isSurrogate(c)) {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        return text.append('"').toString();
    }

    /** Damaged topics and keys may hold anything: what would break a line is written as Java writes it. */
    private static void row(PrintWriter out, Object... values) {
        for (int i = 0; i < values.length; i++) {
            String text = values[i].toString();
            out.print(i == 0 ? "" : "\t");
            out.print(text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r"));
        }
        out.print('\n');
    }

    private static String plain(String text) {
        return text.translateEscapes();
    }

    private static double millisSince(long begin) {
        return (System.nanoTime() - begin) / 1e6;
    }

    private static void halt(int code) {
        OUT.flush();
        Runtime.getRuntime().halt(code); // the store's threads would keep a process alive
    }

    // ---- the end of a store as a kill makes it --------------------------------------------------------------------

    /** Stops all threads of stores where they are, and tells whether the next store has nothing to wait for there. */
    private static boolean isStill() throws Exception {
        Method suspend = method(Thread.class, "suspend"); // a JVM that cannot do it any more has one store
        Method resume = method(Thread.class, "resume");
        for (int i = 0; suspend != null && resume != null && i < MOST_TRIES; i++) {
            Set<Thread> theirs = new HashSet<>(Thread.getAllStackTraces().keySet());
            theirs.removeIf(thread -> thread == Thread.currentThread() || thread instanceof ForkJoinWorkerThread
                || thread.getThreadGroup() != Thread.currentThread().getThreadGroup());
            try {
                for (Thread thread : theirs) {
                    suspend.invoke(thread);
                }
            } catch (InvocationTargetException unsupported) {
                return false;
            }
            long[] ids = theirs.stream().mapToLong(Thread::getId).toArray();
            boolean still = true;
            for (ThreadInfo thread : ManagementFactory.getThreadMXBean().getThreadInfo(ids, true, true)) {
                still &= thread == null || !holdsWhatOthersNeed(thread);
            }
            if (still) {
                return true;
            }
            for (Thread thread : theirs) {
                resume.invoke(thread);
            }
            Thread.sleep(1);
        }
        return false;
    }

    /** A lock, the log's for one, or a class half made. What a selector or a pool's worker locks is its own. */
    private static boolean holdsWhatOthersNeed(ThreadInfo thread) {
        List<LockInfo> locks = new ArrayList<>(List.of(thread.getLockedMonitors()));
        locks.addAll(List.of(thread.getLockedSynchronizers()));
        return locks.stream().map(LockInfo::getClassName)
                .anyMatch(name -> !name.startsWith("sun.nio.ch.") && !name.endsWith("ThreadPoolExecutor$Worker"))
            || Arrays.stream(thread.getStackTrace()).anyMatch(frame -> frame.getMethodName().equals("<clinit>"));
    }

    // ---- what differs between brokers -----------------------------------------------------------------------------

    /** Sends what the broker writes beside its store to a directory of the caller; before any class of it is loaded. */
    private static void settle(Path home) throws Exception {
        System.setProperty("user.home", home.toString());
        System.setProperty("rocketmq.broker.diskSpaceWarningLevelRatio", "0.99");
        System.setProperty("rocketmq.broker.diskSpaceCleanForciblyRatio", "0.99");
        log(home, "logback.configurationFile", ""); // 4.x
        log(home, "rmq.logback.configurationFile", "org.apache.rocketmq.logging."); // 5.x has a copy under its own name
    }

    private static void log(Path home, String property, String prefix) throws Exception {
        Path file = home.resolve(property + ".xml");
        Files.writeString(file, "<configuration><appender name=\"file\" class=\"" + prefix
            + "ch.qos.logback.core.FileAppender\"><file>" + home.resolve("broker.log") + "</file>"
            + "<encoder><pattern>%p %c{0} %m%n%ex{2}</pattern></encoder></appender>"
            + "<root level=\"WARN\"><appender-ref ref=\"file\"/></root></configuration>");
        System.setProperty(property, file.toString());
    }

    private static DefaultMessageStore open(MessageStoreConfig config, Map<?, ?> topics) throws Exception {
        BrokerConfig broker = new BrokerConfig();
        BrokerStatsManager statistics = statistics();
        Object listener = Proxy.newProxyInstance(BrokerStart.class.getClassLoader(),
            new Class<?>[] {MessageArrivingListener.class}, (proxy, method, arguments) -> null);
        for (Constructor<?> constructor : DefaultMessageStore.class.getConstructors()) {
            if (constructor.getParameterCount() == 4) { // up to 5.1.0; 5.x is told of topics afterwards
                Object store = constructor.newInstance(config, statistics, listener, broker);
                Method tell = method(DefaultMessageStore.class, "setTopicConfigTable", ConcurrentMap.class);
                if (tell != null) {
                    tell.invoke(store, topics);
                }
                return (DefaultMessageStore) store;
            }
            if (constructor.getParameterCount() == 5) {
                return (DefaultMessageStore) constructor.newInstance(config, statistics, listener, broker, topics);
            }
        }
        throw new IllegalStateException("DefaultMessageStore has no constructor that is known here");
    }

    private static BrokerStatsManager statistics() throws Exception {
        for (Constructor<?> constructor : BrokerStatsManager.class.getConstructors()) {
            if (constructor.getParameterCount() == 1 && constructor.getParameterTypes()[0] == String.class) {
                return (BrokerStatsManager) constructor.newInstance(GROUP); // up to 4.9.2
            }
            if (constructor.getParameterCount() == 2 && constructor.getParameterTypes()[1] == boolean.class) {
                return (BrokerStatsManager) constructor.newInstance(GROUP, false);
            }
        }
        throw new IllegalStateException("BrokerStatsManager has no constructor that is known here");
    }

    /** Returns the topics whose queues hold batches; none for 4.x, which has no attributes and no such queues. */
    private ConcurrentHashMap<String, TopicConfig> topics() throws Exception {
        ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        String names = options.getOrDefault("bcqTopics", "");
        Method attributes = method(TopicConfig.class, "getAttributes");
        if (attributes == null && !names.isEmpty()) {
            emit("unknown setting", "name", "bcqTopics");
            return topics;
        }
        for (String name : names.split(",")) {
            if (!name.isEmpty()) {
                TopicConfig topic = new TopicConfig(name);
                @SuppressWarnings("unchecked")
                Map<String, String> map = (Map<String, String>) attributes.invoke(topic);
                map.put("queue.type", "BatchCQ");
                topics.put(name, topic);
            }
        }
        return topics;
    }

    private static boolean set(Object config, String name, String value) throws Exception {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : config.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                method.invoke(config, convert(value, method.getParameterTypes()[0]));
                return true;
            }
        }
        return false;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object convert(String value, Class<?> type) {
        if (type == boolean.class) {
            return Boolean.valueOf(value);
        } else if (type == int.class) {
            return Integer.valueOf(value);
        } else if (type == long.class) {
            return Long.valueOf(value);
        } else if (type == double.class) {
            return Double.valueOf(value);
        } else if (type.isEnum()) {
            return Enum.valueOf((Class<? extends Enum>) type, value);
        }
        return value;
    }

    /** Keeps 4.x from putting due delayed messages into their topics; later stores leave that to the broker. */
    private static void noDelayedDeliveries(DefaultMessageStore store) throws Exception {
        Method service = method(DefaultMessageStore.class, "getScheduleMessageService");
        if (service != null) {
            Object schedule = service.invoke(store);
            Field started = schedule.getClass().getDeclaredField("started");
            started.setAccessible(true);
            ((AtomicBoolean) started.get(schedule)).set(true); // so that its start() does nothing
        }
    }

    /**
     * Has dispatch take a millisecond for each small index file: it is named after its time in milliseconds, and of two
     * of the same name the second is written over the first.
     */
    @SuppressWarnings("unchecked")
    private static void slowDown(DefaultMessageStore store, int indexUnits) throws Exception {
        long nanos = indexUnits > 1 ? MOST_KEYS * 1_000_000L / (indexUnits - 1) : 0;
        if (nanos > 1_000) { // a message; of larger files a broker does not fill two so fast
            Field field = DefaultMessageStore.class.getDeclaredField("dispatcherList");
            field.setAccessible(true);
            ((List<CommitLogDispatcher>) field.get(store)).add(request -> {
                for (long end = System.nanoTime() + nanos; System.nanoTime() < end;) {
                    Thread.onSpinWait();
                }
            });
        }
    }

    /** Gives back the lock that says that a broker runs here, which a killed process does not keep. */
    private static void unlock(DefaultMessageStore store) throws Exception {
        Field field = DefaultMessageStore.class.getDeclaredField("lock");
        field.setAccessible(true);
        if (field.get(store) instanceof FileLock lock) {
            lock.release();
        }
    }

    /** Returns each message's place in the queue, or null where a 4.x store, which does not say, passed some over. */
    @SuppressWarnings("unchecked")
    private static List<Long> unitOffsets(GetMessageResult answer, long asked, long next) throws Exception {
        Method said = method(GetMessageResult.class, "getMessageQueueOffset");
        if (said != null) {
            return (List<Long>) said.invoke(answer);
        }
        int count = answer.getMessageBufferList().size();
        if (count > 1 && next - asked != count) {
            return null;
        }
        List<Long> units = new ArrayList<>();
        for (long unit = next - count; unit < next; unit++) {
            units.add(unit);
        }
        return units;
    }

    /** Returns how many messages a client makes of this one: 1, or those in an inner batch (5.0 and later). */
    private static int inner(MessageExt message) {
        Method unwrap = method(MessageDecoder.class, "decodeMessage", MessageExt.class, List.class);
        if (unwrap == null || (message.getSysFlag() & INNER_BATCH) == 0) {
            return 1;
        }
        List<MessageExt> messages = new ArrayList<>();
        try {
            unwrap.invoke(null, message, messages);
        } catch (ReflectiveOperationException undecodable) {
            return 0;
        }
        return messages.size();
    }

    private static Method method(Class<?> type, String name, Class<?>... parameters) {
        try {
            return type.getMethod(name, parameters);
        } catch (NoSuchMethodException other) {
            return null;
        }
    }
}
