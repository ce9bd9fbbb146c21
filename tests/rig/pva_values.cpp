// A client of the library pvAccessCPP: puts values of all forms to the PVs of pva_values.py. Prints what it sent, a JSON
// object for each put: the PV, the fields by name, and the value that stands for the whole. EPICS_PVA_ADDR_LIST says where.
#include <functional>
#include <iostream>
#include <epicsEvent.h>
#include <pv/clientFactory.h>
#include <pv/createRequest.h>
#include <pv/pvAccess.h>
#include <pv/standardField.h>
#include <pva/client.h>
namespace pvd = epics::pvData;
typedef std::function<void(const pvd::PVStructurePtr&, pvd::BitSet&)> Fill;

struct Put : pvac::ClientChannel::PutCallback {
    epicsEvent done; Fill fill; bool ok;
    void putBuild(const pvd::StructureConstPtr& type, Args& args) {
        pvd::PVStructurePtr value(pvd::getPVDataCreate()->createPVStructure(type));
        fill(value, args.tosend);
        args.root = value;
    }
    void putDone(const pvac::PutEvent& event) { ok = event.event == pvac::PutEvent::Success; done.signal(); }
};

static void put(pvac::ClientProvider& client, const char* pv, const std::string& fields, const std::string& requested, Fill fill, bool fetch = false) {
    pvac::ClientChannel channel(client.connect(pv));
    Put put;
    put.fill = fill;
    pvac::Operation operation(channel.put(&put, pvd::PVStructure::const_shared_pointer(), fetch));
    if (!put.done.wait(10) || !put.ok) { std::cerr << pv << " failed" << std::endl; exit(1); }
    std::cout << "{\"pv\": \"" << pv << "\", \"fields\": {" << fields << "}, \"requested\": " << requested << "}" << std::endl;
}

#define FILL [&](const pvd::PVStructurePtr& v, pvd::BitSet& sent)
#define SENT(name) sent.set(v->getSubFieldT(name)->getFieldOffset())
#define NUMBER(type, name, number) v->getSubFieldT<pvd::type>(name)->put(number)

template<typename T> static pvd::shared_vector<const T> two(T a, T b) { pvd::shared_vector<T> all(2); all[0] = a; all[1] = b; return pvd::freeze(all); }

int main() {
    pvac::ClientProvider client("pva");
    pvd::PVDataCreatePtr make(pvd::getPVDataCreate());
    pvd::StructureConstPtr type(pvd::getFieldCreate()->createFieldBuilder()->add("p", pvd::pvInt)->addNestedStructure("q")->add("r", pvd::pvString)->endNested()->createStructure());
    put(client, "V:NUMBER", R"("value": 1.5)", R"(1.5)", FILL { NUMBER(PVDouble, "value", 1.5); SENT("value"); });
    put(client, "V:NUMBER", R"("alarm.severity": 2, "alarm.status": 0, "alarm.message": "hm")", R"(null)", FILL { NUMBER(PVInt, "alarm.severity", 2); NUMBER(PVString, "alarm.message", "hm"); SENT("alarm"); });
    put(client, "V:NUMBER", R"("value": 2.5, "alarm.severity": 0, "alarm.status": 0, "alarm.message": "", "timeStamp.secondsPastEpoch": 0, "timeStamp.nanoseconds": 0, "timeStamp.userTag": 0)", R"(2.5)", FILL { NUMBER(PVDouble, "value", 2.5); sent.set(0); });
    put(client, "V:NUMBER", R"("value": 3.5)", R"(3.5)", FILL { NUMBER(PVDouble, "value", 3.5); SENT("value"); }, true);
    put(client, "V:NUMBER", R"()", R"(null)", FILL {  });
    put(client, "V:ENUM", R"("value.index": 2)", R"(2)", FILL { NUMBER(PVInt, "value.index", 2); SENT("value.index"); }, true);
    put(client, "V:TABLE", R"("value.a": [8.0, 9.0])", R"(null)", FILL { v->getSubFieldT<pvd::PVDoubleArray>("value.a")->replace(two(8.0, 9.0)); SENT("value.a"); });
    put(client, "V:TABLE", R"("value.a": [8.0, 9.0], "value.b": ["k", "l"], "value.c": [])", R"(null)", FILL { v->getSubFieldT<pvd::PVDoubleArray>("value.a")->replace(two(8.0, 9.0)); v->getSubFieldT<pvd::PVStringArray>("value.b")->replace(two(std::string("k"), std::string("l"))); SENT("value"); });
    put(client, "V:UNION", R"("value.d": 1.25)", R"(1.25)", FILL { v->getSubFieldT<pvd::PVUnion>("value")->select<pvd::PVDouble>("d")->put(1.25); SENT("value"); });
    put(client, "V:UNION", R"("value.p.x": 3, "value.p.y": "yy")", R"(null)", FILL { pvd::PVStructurePtr point(v->getSubFieldT<pvd::PVUnion>("value")->select<pvd::PVStructure>("p")); point->getSubFieldT<pvd::PVInt>("x")->put(3); point->getSubFieldT<pvd::PVString>("y")->put("yy"); SENT("value"); });
    put(client, "V:UNION", R"("value": null)", R"(null)", FILL { v->getSubFieldT<pvd::PVUnion>("value")->select(pvd::PVUnion::UNDEFINED_INDEX); SENT("value"); });
    put(client, "V:ANY", R"("value": 7)", R"(7)", FILL { pvd::PVIntPtr number(make->createPVScalar<pvd::PVInt>()); number->put(7); v->getSubFieldT<pvd::PVUnion>("value")->set(number); SENT("value"); });
    // the same type again: the second time by its number
    for (int turn = 0; turn < 2; turn++)
        put(client, "V:ANY", R"("value.p": 1, "value.q.r": "in")", R"(null)", FILL { pvd::PVStructurePtr part(make->createPVStructure(type)); part->getSubFieldT<pvd::PVInt>("p")->put(1); part->getSubFieldT<pvd::PVString>("q.r")->put("in"); v->getSubFieldT<pvd::PVUnion>("value")->set(part); SENT("value"); });
    put(client, "V:ANY", R"("value": [1.0, 2.0])", R"([1.0, 2.0])", FILL { pvd::PVDoubleArrayPtr all(make->createPVScalarArray<pvd::PVDoubleArray>()); all->replace(two(1.0, 2.0)); v->getSubFieldT<pvd::PVUnion>("value")->set(all); SENT("value"); });
    put(client, "V:ANY", R"("value": null)", R"(null)", FILL { SENT("value"); });
    put(client, "V:POINTS", R"("value[0].x": 1, "value[0].y": "one", "value[1]": null, "value[2].x": 3, "value[2].y": "")", R"(null)", FILL { pvd::PVStructureArrayPtr array(v->getSubFieldT<pvd::PVStructureArray>("value")); pvd::PVStructureArray::svector all(3); for (int k = 0; k < 3; k += 2) { all[k] = make->createPVStructure(array->getStructureArray()->getStructure()); all[k]->getSubFieldT<pvd::PVInt>("x")->put(k + 1); } all[0]->getSubFieldT<pvd::PVString>("y")->put("one"); array->replace(pvd::freeze(all)); SENT("value"); });
    put(client, "V:POINTS", R"("value": [])", R"([])", FILL { SENT("value"); });
    put(client, "V:UNIONS", R"("value[0].d": 1.5, "value[1]": null, "value[2].s": "u")", R"(null)", FILL { pvd::PVUnionArrayPtr array(v->getSubFieldT<pvd::PVUnionArray>("value")); pvd::PVUnionArray::svector all(3); for (int k = 0; k < 3; k += 2) all[k] = make->createPVUnion(array->getUnionArray()->getUnion()); all[0]->select<pvd::PVDouble>("d")->put(1.5); all[2]->select<pvd::PVString>("s")->put("u"); array->replace(pvd::freeze(all)); SENT("value"); });
    put(client, "V:ANYS", R"("value[0]": 1, "value[1]": null, "value[2].p": 0, "value[2].q.r": "k")", R"(null)", FILL { pvd::PVUnionArrayPtr array(v->getSubFieldT<pvd::PVUnionArray>("value")); pvd::PVUnionArray::svector all(3); for (int k = 0; k < 3; k += 2) all[k] = make->createPVUnion(array->getUnionArray()->getUnion()); pvd::PVIntPtr number(make->createPVScalar<pvd::PVInt>()); number->put(1); all[0]->set(number); pvd::PVStructurePtr part(make->createPVStructure(type)); part->getSubFieldT<pvd::PVString>("q.r")->put("k"); all[2]->set(part); array->replace(pvd::freeze(all)); SENT("value"); });
    put(client, "V:DEEP", R"("a.b.x": 4)", R"(null)", FILL { NUMBER(PVInt, "a.b.x", 4); SENT("a.b.x"); });
    put(client, "V:DEEP", R"("a.b.x": 5, "a.b.y": "dd", "a.e": 6.0)", R"(null)", FILL { NUMBER(PVInt, "a.b.x", 5); NUMBER(PVString, "a.b.y", "dd"); NUMBER(PVDouble, "a.e", 6); SENT("a"); });
    // the bit of a structure, and one within it, which is of no account
    put(client, "V:DEEP", R"("a.b.x": 5, "a.b.y": "", "z": 3)", R"(null)", FILL { NUMBER(PVInt, "a.b.x", 5); NUMBER(PVInt, "z", 3); SENT("a.b"); SENT("a.b.y"); SENT("z"); });
    put(client, "V:TEXTS", R"("value[0]": "k", "value[1]": "llllllllllllllllllllllllllllllllllllllllllllllllllllllllllll")", R"(null)", FILL { v->getSubFieldT<pvd::PVStringArray>("value")->replace(two(std::string("k"), std::string(60, 'l'))); SENT("value"); });
    put(client, "V:KINDS", R"("b": 1, "u64": 18446744073709551615, "f": 0.5, "au64": [1, 2])", R"(null)", FILL { NUMBER(PVBoolean, "b", true); NUMBER(PVULong, "u64", ~0ull); NUMBER(PVFloat, "f", .5f); v->getSubFieldT<pvd::PVULongArray>("au64")->replace(two<pvd::uint64>(1, 2)); SENT("b"); SENT("u64"); SENT("f"); SENT("au64"); });
    return 0;
}
